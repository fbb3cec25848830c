import { chartTools } from '../charts/chart-tools';
import { dateText, escaped, factList, htmlPage, literal, table } from '../charts/html-page';
import { curvesOf, type Look, looksOf } from './curves';
import { drawCurves } from './draw-curves';
import type {
  AblationResults,
  Controls,
  Interval,
  Margin,
  MethodResults,
  StudyResults,
  WorkloadResults,
} from './results';
import type { Verdict } from './statistics';
import { bytesText, intervalText, ratioText, signed, type Words, wordsOf } from './words';

/**
 * A page of the results, as one HTML file that needs no other and fetches nothing.
 *
 * ```ts
 * writeFileSync('study.html', studyPage(readResults('study.json')));
 * ```
 */
export function studyPage(results: StudyResults): string {
  const looks = looksOf(results);
  const { machine, startedAt, finishedAt, command, ranks, programs } = results;
  const facts = [
    ['command', command],
    ['date', `${dateText(new Date(startedAt))} to ${dateText(new Date(finishedAt))}`],
    ['ranks', `${ranks} processes in each training, all on one machine`],
    [
      'machine that wrote the file',
      `${machine.processor}, ${machine.cores} cores, ${(machine.memoryBytes / 2 ** 30).toFixed(0)} GiB of memory`,
    ],
    ['software', `gradring ${machine.gradring}, Node ${machine.node}, ${machine.system}`],
    [
      'program',
      `${programs.join(', ')}${programs.length > 1 ? ': it was changed while the study ran' : ''} (the hash of its files)`,
    ],
  ] as const;
  return htmlPage({
    title: 'Compression methods compared · gradring study',
    style: STYLE,
    header: `<h1>Compression methods compared</h1>\n${factList(facts)}`,
    main: [
      overview(results, looks),
      declaration(results),
      ...results.workloads.map((workload, i) => new WorkloadSection(results, workload, `curves-${i}`, looks).html()),
      `<h2>What this does not show</h2>\n${list(results.limits)}`,
    ].join('\n'),
    script: [
      chartTools.toString(),
      drawCurves.toString(),
      `drawCurves(uPlot, chartTools(uPlot), ${literal(curvesOf(results))});`,
    ].join('\n'),
  });
}

const VERDICTS: Readonly<Record<Verdict, string>> = { passes: '✓ passes', fails: '✗ fails', undecided: '? undecided' };

/** The verdicts of all methods on all workloads. */
function overview({ workloads, declared }: StudyResults, looks: ReadonlyMap<string, Look>): string {
  const rows = [...looks.keys()]
    .filter(name => name !== declared.baseline)
    .map(name => [
      `${swatch(looks.get(name)!)}${escaped(name)}`,
      ...workloads.map(({ methods }) => {
        const method = methods.find(each => each.name === name);
        return method === undefined
          ? '–'
          : `${verdict(method.verdict)} <span class="note">${ratioText(method.ratio)}</span>`;
      }),
    ]);
  return `<h2>In short</h2>
${table(['Method', ...workloads.map(({ name }) => escaped(name))], rows, 'words')}
<p class="note">The verdict on each workload, and how many times fewer bytes a rank sent in a whole training. “Passes” means
no worse than ${escaped(declared.baseline)} by the margin below; “undecided” means that the trainings were too few to say.</p>
${workloads.map(({ name, controls }) => (Object.values(controls).every(control => control?.held ?? true) ? '' : `<p class="warning"><strong>${escaped(name)}:</strong> a control did not hold (see there). Chance is larger than the margin here, or the task does not tell methods apart.</p>`)).join('')}`;
}

/** What was fixed before the first training. */
function declaration({ declared, workloads }: StudyResults): string {
  const { margins, tests, baseline, controls, ablation, notes } = declared;
  const percent = Number((100 * tests.confidence).toPrecision(4));
  const sentences = [
    `Every method is paired with ${baseline} by seed and fold. The folds of a seed are averaged first, so a seed is the unit of the test: a paired t-test, whose intervals are two-sided, of ${percent} %.`,
    `A paired bootstrap draws the test examples ${tests.resamples.toLocaleString('en-US')} times, with the same draws for both methods. Its intervals say how much the result depends on these examples.`,
    'A method passes if both intervals lie wholly on the good side of the margin. It fails if both lie wholly beyond it, or if a training diverged. Anything else is undecided.',
    `The first control is ${baseline} once more. It must pass, and its interval over the seeds must include zero. The second one is known to be worse. It must fail.`,
    ...(ablation === undefined
      ? []
      : [`Ablation: ${ablation.methods.join('; ')} are compared with ${ablation.of} too.`]),
    ...notes,
  ];
  const rows = workloads.map(({ name }) => {
    const { score } = margins[name]!;
    const { sameMethod, mustFail } = controls[name]!;
    return [name, score, wordsOf(margins[name]!, baseline).margin, sameMethod, mustFail].map(escaped);
  });
  return `<h2>What was declared beforehand</h2>
${table(['Workload', 'Score', 'Margin: passes if', 'Control: must pass', 'Control: must fail'], rows, 'words')}
${list(sentences)}`;
}

/** One workload on the page. */
class WorkloadSection {
  private readonly margin: Margin;
  private readonly declaredControls: Controls;
  private readonly words: Words;
  /** The values that the plots of differences reach. */
  private readonly reach: number;

  constructor(
    private readonly results: StudyResults,
    private readonly workload: WorkloadResults,
    /** The id of the element for its curves. */
    private readonly curvesId: string,
    private readonly looks: ReadonlyMap<string, Look>,
  ) {
    this.margin = results.declared.margins[workload.name]!;
    this.declaredControls = results.declared.controls[workload.name]!;
    this.words = wordsOf(this.margin, results.declared.baseline);
    const ends = [...workload.methods, ...workload.ablation].flatMap(
      ({ differenceFromDense: over, differenceOverExamples: other }) =>
        [over, other].flatMap(each => [each?.low ?? 0, each?.high ?? 0].map(Math.abs)),
    );
    this.reach = Math.min(2.5 * this.margin.worse, Math.max(1.5 * this.margin.worse, ...ends));
  }

  html(): string {
    const { name, data, parameters, ranks, methods } = this.workload;
    const paperModels = [...new Set(methods.flatMap(({ paper }) => paper?.model ?? []))];
    return `<section>
<h2 class="workload">${escaped(name)}</h2>
${factList([
  ['data', data],
  ['model', `${parameters.toLocaleString('en-US')} parameters`],
  ...(ranks === undefined ? [] : [['ranks', String(ranks)] as const]),
  ['passes if', `${this.margin.score} is ${this.words.margin}`],
])}
${table(
  this.headings(),
  methods.map(method => this.row(method)),
)}
<p class="note">Brackets hold intervals. In the plots, the dashed line is the margin, the shaded side is worse than it; the upper bar is over
the seeds, the lower one over the test examples, and what lies beyond a plot is at its edge. The ratio counts all bytes that a rank sent, with headers and with what it forwards for
others, against those of the dense ring. The paper divides the size of a gradient by its compressed size on one node, after the warm-up, for
${escaped(paperModels.join(' and ') || 'other models')}.</p>
<h3>Controls</h3>
${list([this.sameMethodWords(), this.mustFailWords()])}
<h3>Curves</h3>
${this.curves()}
${this.ablation()}
${this.details()}
</section>`;
  }

  private headings(): string[] {
    const { score, difference } = this.words;
    return [
      'Method',
      score,
      `${difference}, over seeds`,
      '… over test examples',
      'Verdict',
      'Difference of log-loss',
      'Ratio',
      '… after warm-up',
      '… in the paper',
      'Seconds',
    ];
  }

  private row(method: MethodResults): string[] {
    const { sameMethod, mustFail } = this.declaredControls;
    const look = this.looks.get(method.name);
    const mark = method.name === sameMethod || method.name === mustFail ? ' <span class="note">control</span>' : '';
    const isBaseline = method.name === this.results.declared.baseline;
    return [
      `${look === undefined ? '' : swatch(look)}${escaped(method.name)}${mark}`,
      cell(method.interval, this.words.scoreText) + divergedText(method),
      cell(method.differenceFromDense, this.words.differenceText),
      cell(method.differenceOverExamples, this.words.differenceText),
      isBaseline ? '–' : `${verdict(method.verdict)} ${this.plot(method)}`,
      cell(method.logLossDifference, logLossText),
      `${ratioText(method.ratio)} <span class="note">${bytesText(method.bytesSentPerRank)} sent</span>`,
      ratioText(method.ratioAfterWarmUp),
      method.paper === undefined ? '–' : ratioText(method.paper.ratio),
      method.seconds.toFixed(1),
    ];
  }

  /** Both intervals of a difference, with zero and the margin. */
  private plot({ differenceFromDense, differenceOverExamples }: MethodResults): string {
    const [width, height] = [110, 22];
    const x = (value: number): number => {
      const clipped = Math.min(1, Math.max(-1, value / this.reach));
      return Number((width / 2 + clipped * (width / 2 - 3)).toFixed(1));
    };
    const margin = x(this.margin.better === 'higher' ? -this.margin.worse : this.margin.worse);
    const bar = (interval: Interval | null, y: number): string =>
      interval === null
        ? ''
        : `<line class="bar" x1="${x(interval.low ?? -Infinity)}" x2="${x(interval.high ?? Infinity)}" y1="${y}" y2="${y}"/><circle cx="${x(interval.mean)}" cy="${y}" r="2.5"/>`;
    return `<svg class="plot" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true">
<rect class="beyond" x="${this.margin.better === 'higher' ? 0 : margin}" width="${this.margin.better === 'higher' ? margin : width - margin}" height="${height}"/>
<line class="zero" x1="${x(0)}" x2="${x(0)}" y2="${height}"/><line class="margin" x1="${margin}" x2="${margin}" y2="${height}"/>
${bar(differenceFromDense, 7)}${bar(differenceOverExamples, 15)}</svg>`;
  }

  private sameMethodWords(): string {
    const { baseline } = this.results.declared;
    const control = this.workload.controls.sameMethod;
    if (control === null) return `The control ${this.declaredControls.sameMethod} was not trained.`;
    const difference = this.differenceOf(control.method);
    return control.held
      ? `It holds: ${control.method} differs from ${baseline} by ${difference}. The interval includes zero, and it passes.`
      : `It does not hold: ${control.method} is the same method as ${baseline}, but differs by ${difference}, or does not pass. So other differences of this size mean nothing.`;
  }

  private mustFailWords(): string {
    const { baseline } = this.results.declared;
    const control = this.workload.controls.mustFail;
    if (control === null)
      return 'There is no method that must fail: nothing shows that this workload can tell methods apart.';
    const method = this.workload.methods.find(({ name }) => name === control.method)!;
    const difference = this.differenceOf(control.method);
    if (!control.held) {
      return `It does not hold: ${control.method} differs from ${baseline} by ${difference}, and does not fail. So nothing shows that this workload can tell methods apart, and that others pass proves little.`;
    }
    if (method.diverged > 0)
      return `It holds: ${control.method} diverged in ${method.diverged} of ${method.seeds.length} trainings, and so fails.`;
    return `It holds: ${control.method} fails, as it must. It differs from ${baseline} by ${difference}.`;
  }

  private differenceOf(name: string): string {
    const difference = this.workload.methods.find(method => method.name === name)?.differenceFromDense;
    return difference == null ? 'an unknown amount' : this.words.differenceWords(difference);
  }

  private curves(): string {
    const id = this.curvesId;
    const option = (over: string, words: string): string =>
      `<label><input type="radio" name="over-${id}" value="${over}"${over === 'step' ? ' checked' : ''}> ${words}</label>`;
    const methods = this.workload.methods.map(
      ({ name }, m) =>
        `<label><input type="checkbox" name="method-${id}" value="${m}" checked> ${swatch(this.looks.get(name)!)}${escaped(name)}</label>`,
    );
    const error = this.margin.score === 'accuracy' ? 'Error on test images' : ERRORS[this.margin.score];
    return `<div id="${id}" class="curves">
<fieldset><legend>Against</legend>${option('step', 'steps')}${option('bytes', 'bytes')}${option('seconds', 'seconds')}</fieldset>
<fieldset><legend>Methods</legend>${methods.join('')}<label><input type="checkbox" name="seeds-${id}" value="all" checked> every seed (thin)</label></fieldset>
<div class="pair">
<figure><h4>Training loss</h4><output></output></figure>
<figure><h4>${error}</h4><output></output></figure>
</div>
<p class="note">Thick: the mean over the seeds. Thin: each seed, as the mean of its folds. Drag to enlarge a part, click twice to see all.</p>
</div>`;
  }

  private ablation(): string {
    const { ablation } = this.workload;
    if (ablation.length === 0) return '';
    const full = this.results.declared.ablation?.of ?? '';
    const row = (method: AblationResults): string[] => [
      escaped(method.name),
      cell(method.interval, this.words.scoreText) + divergedText(method),
      cell(method.differenceFromFull, this.words.differenceText),
      ratioText(method.ratio),
    ];
    const { score, difference } = this.words;
    const headings = ['Variant', score, `${difference}, from ${escaped(full)}`, 'Ratio'];
    const seeds = new Set(ablation.flatMap(method => method.seeds.map(each => each.seed))).size;
    return `<h3>Ablation: what each part of ${escaped(full)} is worth</h3>
${table(headings, ablation.map(row))}
<p class="note">On ${seeds} seeds, each compared with ${escaped(full)} on the same ones. The intervals are not corrected for the number of comparisons: of
twenty, one excludes zero by chance.</p>`;
  }

  private details(): string {
    const { methods, ablation, tuning } = this.workload;
    const all = [...methods, ...ablation];
    const { score } = this.words;
    const number = (value: number | null, text: (value: number) => string): string =>
      value === null ? 'diverged' : text(value);
    const trainings = all.flatMap(method =>
      method.seeds.map(each => [
        escaped(method.name),
        String(each.seed),
        String(each.fold),
        number(each.score, this.words.scoreText),
        number(each.logLoss, value => value.toPrecision(4)),
        bytesText(each.bytesSentPerRank),
        String(each.steps),
        each.seconds.toFixed(1),
      ]),
    );
    const tried = tuning.map(row => [
      `${escaped(row.method)}`,
      String(row.learningRate),
      row.seeds.join(', '),
      number(row.mean, this.words.scoreText),
      number(row.logLoss, value => value.toPrecision(4)),
      row.best ? '✓ best' : '',
    ]);
    const options = all.map(method => [
      escaped(method.name),
      String(method.learningRate),
      `<code>${escaped(JSON.stringify(method.options))}</code>`,
    ]);
    return `<details><summary>Options of the methods</summary>
${table(['Method', 'Learning rate', 'Options'], options, 'words')}</details>
${
  tuning.length === 0
    ? ''
    : `<details><summary>Learning rates that were tried, on other seeds</summary>
${table(['Method', 'Learning rate', 'Seeds', score, 'Log-loss', ''], tried)}</details>`
}
<details><summary>Every training (${trainings.length})</summary>
${table(['Method', 'Seed', 'Fold', score, 'Log-loss', 'Sent by a rank', 'Steps', 'Seconds'], trainings)}</details>`;
  }
}

const ERRORS = {
  perplexity: 'Perplexity on test text',
  'label error rate': 'Label error rate on test utterances',
} as const;

function verdict(value: Verdict | null): string {
  return value === null ? '–' : `<span class="verdict ${value}">${VERDICTS[value]}</span>`;
}

function divergedText({ diverged, seeds }: MethodResults): string {
  return diverged === 0 ? '' : ` <span class="note">${diverged} of ${seeds.length} diverged</span>`;
}

/** A difference of log-losses. */
function logLossText(difference: number): string {
  return signed(difference, 4);
}

/** A mean with its interval in brackets, as a cell. */
function cell(interval: Interval | null, text: (value: number) => string): string {
  return interval === null ? '–' : intervalText(interval, text).replace(/ (\(.*\))$/, ' <span class="note">$1</span>');
}

/** A short line that looks as the curves of a method do. */
function swatch({ color, dashed }: Look): string {
  return `<i class="swatch" style="border-top-color: var(${color})${dashed ? '; border-top-style: dashed' : ''}"></i>`;
}

/** A list of sentences. */
function list(sentences: readonly string[]): string {
  return `<ul>${sentences.map(sentence => `<li>${escaped(sentence)}</li>`).join('\n')}</ul>`;
}

const STYLE = `
:root { --good: #0b6bcb; --bad: #b3400a; --open: #6b6b70; }
@media (prefers-color-scheme: dark) { :root { --good: #7ab8ff; --bad: #ff9a62; --open: #a0a3aa; } }
h2 { margin-top: 2rem; font-size: 1.25rem; } h2.workload { font-size: 1.5rem; text-transform: capitalize; }
h3 { margin: 1.5rem 0 .5rem; font-size: 1.05rem; } h4 { margin: 0; font-size: .95rem; }
header, main { max-width: 1300px; } table { border-collapse: separate; border-spacing: 0; }
section { border-top: 2px solid var(--line); margin-top: 2.5rem; }
ul { margin: 0 0 1.5rem; padding-left: 1.2rem; max-width: 75ch; font-size: .9rem; } li { margin-bottom: .3rem; }
p.note { max-width: 90ch; } td .note { display: block; font-size: .75rem; }
.warning { padding: .6rem 1rem; border-left: 4px solid var(--bad); background: var(--panel); }
th { vertical-align: bottom; white-space: normal; } td:first-child, th:first-child { text-align: left; }
.wide table td:first-child, .wide table th:first-child { position: sticky; left: -1.25rem; background: var(--panel); }
table.words th, table.words td { text-align: left; }
.verdict { font-weight: 600; white-space: nowrap; } .passes { color: var(--good); } .fails { color: var(--bad); } .undecided { color: var(--open); }
.swatch { display: inline-block; width: 1.1rem; margin-right: .4rem; border-top: 3px solid; vertical-align: middle; }
.plot { display: block; } .plot .beyond { fill: var(--bad); opacity: .14; } .plot .zero { stroke: var(--faint); }
.plot .margin { stroke: var(--bad); stroke-dasharray: 3 2; } .plot .bar { stroke: var(--ink); stroke-width: 2; }
.plot circle { fill: var(--ink); }
fieldset { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 0 0 .5rem; padding: 0; border: 0; font-size: .85rem; }
legend { float: left; margin-right: 1rem; color: var(--faint); } label { white-space: nowrap; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 1rem; }
.pair figure { min-width: 0; margin: 0 0 .5rem; } output { display: block; min-height: 4.5em; color: var(--faint); font-size: .8rem; }
details { margin-bottom: 1rem; } summary { cursor: pointer; margin-bottom: .5rem; } code { font-size: .8rem; }
@media (max-width: 600px) { body { padding: 1rem .75rem; } figure, .wide { padding: .75rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .3rem; } table.words td { white-space: normal; } .wide table td:first-child, .wide table th:first-child { left: -.75rem; min-width: 5rem; white-space: normal; } }
`;
