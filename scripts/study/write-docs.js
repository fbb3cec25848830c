#!/usr/bin/env node
// Writes into the docs what `gradring study` has measured: the tables of each workload, from docs/data/study.json into
// docs/study.md, and from docs/data/first-study.json into docs/first-study.md; and a short one into README.md.
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { readResults } = require('../../dist/study/read-results');
const { markdownTable, withText } = require('../markdown-table');
const { bytesText, intervalText, ratioText, signed, wordsOf } = require('../../dist/study/words');

const root = path.join(__dirname, '../..');
const VERDICTS = { passes: 'passes', fails: '**fails**', undecided: 'undecided' };
/** The methods that the README shows, by the names that it gives them. */
const SHOWN = {
  'low rank': '`lowRank()`',
  'DGC, chosen sparsity': '`dgc()`',
  DGC: 'DGC at 99.9 %',
  'gradient dropping': 'gradient dropping',
};
/** The studies: results, and the page that shows them, have the same name. README.md shows the first of this list. */
const STUDIES = ['study', 'first-study'];

/** The files of the docs that show the results: from each path to its text. */
function studyDocs() {
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  const short = markdownTable(shortTable(committedResults(STUDIES[0])));
  const pages = STUDIES.map(study => [`docs/${study}.md`, pageOf(study)]);
  return { 'README.md': withText(readme, 'study', short), ...Object.fromEntries(pages) };
}

/** The page of a study with its tables. */
function pageOf(study) {
  const { workloads, declared } = committedResults(study);
  let page = readFileSync(path.join(root, `docs/${study}.md`), 'utf8');
  for (const workload of workloads) {
    for (const [name, table] of Object.entries(tablesOf(workload, declared))) {
      page = withText(page, `${workload.name}: ${name}`, markdownTable(table));
    }
  }
  return page;
}

/** A row for each workload that has all these methods: how much they differ from dense. */
function shortTable({ workloads, declared: { margins, baseline } }) {
  const rows = workloads.flatMap(({ name, methods }) => {
    const { difference, score, differenceText } = wordsOf(margins[name], baseline);
    const shown = Object.keys(SHOWN).map(method => methods.find(each => each.name === method));
    if (shown.includes(undefined)) return [];
    const cells = shown.map(({ differenceFromDense, ratio, verdict }) => {
      return `${intervalText(differenceFromDense, differenceText)} at ${ratioText(ratio)}: ${VERDICTS[verdict]}`;
    });
    const unit = difference.replace(/^Difference, /, '');
    const goal = `${margins[name].better === 'higher' ? 'more' : 'less'} is better`;
    const steps = methods[0].seeds[0].steps.toLocaleString('en-US');
    return [[name, steps, `${score.replace(', %', '').toLowerCase()}, ${unit}: ${goal}`, ...cells]];
  });
  return [['', 'steps', 'difference in', ...Object.values(SHOWN)], ...rows];
}

/** The tables of a workload, as rows of cells. */
function tablesOf({ name, methods, ablation }, { margins, baseline }) {
  const { score, difference, scoreText, differenceText } = wordsOf(margins[name], baseline);
  const interval = (value, text) => (value === null ? '–' : intervalText(value, text));
  const methodRows = methods.map(method => [
    method.name,
    interval(method.interval, scoreText),
    interval(method.differenceFromDense, differenceText),
    interval(method.differenceOverExamples, differenceText),
    interval(method.logLossDifference, value => signed(value, 3)),
    method.verdict === null ? '–' : VERDICTS[method.verdict],
    bytesText(method.bytesSentPerRank),
    ratioText(method.ratio),
    ratioText(method.ratioAfterWarmUp),
    method.paper === undefined ? '–' : ratioText(method.paper.ratio),
  ]);
  const heads = ['sent by a rank', 'ratio', '… after warm-up', '… in the paper'];
  const ablationRows = ablation.map(variant => [
    variant.name,
    variant.interval === null
      ? `${variant.diverged} of ${variant.seeds.length} diverged`
      : intervalText(variant.interval, scoreText),
    interval(variant.differenceFromFull, differenceText),
  ]);
  const scoreHead = score.toLowerCase();
  const differenceHead = difference.toLowerCase();
  return {
    methods: [
      ['method', scoreHead, `${differenceHead}, over seeds`, '… over examples', 'log-loss', 'verdict', ...heads],
      ...methodRows,
    ],
    ...(ablation.length > 0 && {
      ablation: [['variant', scoreHead, `${differenceHead}, from DGC`], ...ablationRows],
    }),
  };
}

/** The results that are committed. */
const committedResults = study => readResults(path.join(root, `docs/data/${study}.json`));

if (require.main === module) {
  for (const [file, text] of Object.entries(studyDocs())) writeFileSync(path.join(root, file), text);
}

module.exports = { STUDIES, committedResults, studyDocs };
