import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Argv, CommandModule } from 'yargs';
import { requireWritable } from '../bench/options';
import { parseCount, parseName, NUMBER_OPTION, TEXT_OPTION, type Typed } from '../command-line';
import { GradringError, invalidArgument } from '../errors';
import { requireOneLauncher } from '../launcher/launcher-task';
import { type Column, formatTable } from '../table';
import {
  declarationOf,
  LIMITS,
  type Method,
  OTHER_DATA_NOTES,
  OWN_DATA_LIMITS,
  RANKS,
  type WorkloadPlan,
  workloadPlans,
} from './declaration';
import { studyPage } from './page';
import { programHash } from './program';
import { readResults } from './read-results';
import {
  type ControlResult,
  type MethodResults,
  type StudyResults,
  thisMachine,
  type WorkloadResults,
} from './results';
import { runTrainings } from './run-trainings';
import { summarise } from './summarise';
import { type LoggedTraining, TrainingLog, trainingOf } from './training-log';
import { keyOf, type PlannedTraining, stateOf, type StudySize, type StudyState } from './trainings';
import { ratioText, wordsOf } from './words';

const DEFAULT_FILE = 'study.json';
const QUICK_FILE = 'study-quick.json';

/** The workloads that can be trained on the data of the paper, which gradring does not have. */
const WITH_DATA_DIR = ['language', 'speech'];

const WORKLOADS = workloadPlans(false).map(({ name }) => name);

const OPTIONS = {
  quick: { type: 'boolean', default: false, describe: 'A few short trainings, which show only that it works' },
  workload: {
    ...TEXT_OPTION,
    describe: `Only these, separated by commas: ${WORKLOADS.join(', ')} [default: all]`,
  },
  'data-dir': {
    ...TEXT_OPTION,
    describe: 'Train the workload language on the Penn Treebank in this folder, or speech on LibriSpeech',
  },
  compressor: { ...TEXT_OPTION, describe: 'A compressor of your own, compared with the others: a CommonJS file' },
  ranks: { ...NUMBER_OPTION, alias: 'n', describe: `How many ranks train on this host [default: ${RANKS}]` },
  json: { ...TEXT_OPTION, describe: `The file for the results [default: ${DEFAULT_FILE}, or ${QUICK_FILE}]` },
  html: { ...TEXT_OPTION, describe: 'A file for the page with tables and curves' },
  from: { ...TEXT_OPTION, describe: 'Train nothing: make the page from this file of results' },
  restart: { type: 'boolean', default: false, describe: 'Forget the trainings of an earlier run' },
} as const;

type Words = Typed<typeof OPTIONS>;

/** `gradring study`: trains every workload with gradring's main compressions, and compares them. */
export const studyCommand: CommandModule = {
  command: 'study',
  describe: "Compare gradring's main compressions on real trainings",
  builder: (yargs: Argv) =>
    yargs
      .usage(
        "$0 study [options]\n\nTrains digits, a language model and a speech model with gradring's main compressions, paired by seed, and compares them by tests that are declared beforehand. " +
          'It takes hours. Ctrl-C interrupts it; the same command goes on from there.',
      )
      .options(OPTIONS)
      .example('$0 study --html study.html', 'everything, and a page for a browser')
      .example('$0 study --quick', 'some minutes: does it work here?')
      .example('$0 study --workload digits --json digits.json', 'one workload')
      .example('$0 study --workload digits --compressor sign-sgd.js', 'with a compressor of your own')
      .example('$0 study --workload language --data-dir ptb --json ptb.json', 'on the text of the paper')
      .example('$0 study --from study.json --html study.html', 'the page of a study that was run before')
      .epilogue('docs/how-to/study.md explains what is compared, and how.'),
  handler: async parsed => {
    process.exitCode = await study(parsed as unknown as Words);
  },
};

async function study(words: Words): Promise<number> {
  const { quick, from, html, json = quick ? QUICK_FILE : DEFAULT_FILE, restart } = words;
  if (html !== undefined) requireWritable(html, 'html');
  if (from !== undefined) {
    if (html === undefined) throw invalidArgument('--from needs --html, the file for the page.');
    writeFileSync(html, pageFrom(from));
    return 0;
  }
  requireOneLauncher('study');
  const plans = plansOf(words);
  const dataDir = dataDirOf(words);
  const given = words.ranks === undefined ? undefined : parseCount(words.ranks, 'ranks');
  requireWritable(json, 'json'); // before the trainings, which take hours
  const logFile = `${json}.trainings`;
  if (restart) rmSync(logFile, { force: true });
  const log = new TrainingLog(logFile);
  if (log.length > 0) console.error(`${log.length} trainings are done: ${logFile}. --restart would forget them.`);
  const program = programHash();
  const trainings: LoggedTraining[] = [];
  for (const plan of plans) {
    const size = { ranks: given ?? plan.ranks ?? RANKS, quick, dataDir };
    log.declare(plan.name, termsOf(plan, size));
    const find = (planned: PlannedTraining) => log.get(keyOf(planned, size));
    const onTraining = (key: string, event: Omit<LoggedTraining, 'program'>) => {
      const training = { ...event, program };
      log.add(key, training);
      report(training, stateOf(plan, find));
    };
    let state = stateOf(plan, find);
    for (; state.next.length > 0; state = stateOf(plan, find)) {
      const exitCode = await runTrainings(state.next, { ...size, stderr: process.stderr, onTraining });
      if (exitCode === 0 && state.next.every(find)) continue;
      if (exitCode === 0) throw new GradringError('ERR_RANK_FAILED', 'The ranks ended without all results.');
      console.error('The study is not complete. The same command goes on from here.');
      return exitCode;
    }
    trainings.push(...state.tuned, ...state.paired);
  }
  const results = summarise(trainings.map(trainingOf), {
    ...{ machine: thisMachine(), ranks: given ?? RANKS },
    declared: { ...declarationOf(plans, quick), ...(dataDir !== undefined && { notes: OTHER_DATA_NOTES }) },
    limits: dataDir === undefined ? [...OWN_DATA_LIMITS, ...LIMITS] : LIMITS,
    ...{ startedAt: log.startedAt, finishedAt: new Date().toISOString() },
    programs: [...new Set(trainings.map(training => training.program))],
    command: `gradring ${process.argv.slice(2).join(' ')}`,
    workloads: plans.map(plan => factsOf(plan, trainings, given)),
  });
  writeFileSync(json, `${JSON.stringify(results)}\n`);
  if (html !== undefined) writeFileSync(html, studyPage(results));
  for (const workload of results.workloads) console.log(`${tableOf(workload, results).join('\n')}\n`);
  console.log(`The results are in ${json}${html === undefined ? '' : `, and as a page in ${html}`}.`);
  return 0;
}

function plansOf({ quick, workload, compressor }: Words): readonly WorkloadPlan[] {
  const all = workloadPlans(quick);
  const names = all.map(({ name }) => name);
  const wanted = workload?.split(',').map(name => parseName(name, 'workload', names)) ?? names;
  const chosen = all.filter(({ name }) => wanted.includes(name));
  if (compressor === undefined) return chosen;
  const taken = chosen.flatMap(({ methods }) => methods.map(({ name }) => name));
  const own = ownMethod(path.resolve(compressor), taken);
  // It has the clip norm of the first method, which has no compression.
  return chosen.map(plan => ({ ...plan, methods: [...plan.methods, { ...own, options: plan.methods[0]!.options }] }));
}

/** The folder of the user's data. They are for one workload. */
function dataDirOf({ workload = '', 'data-dir': dataDir }: Words): string | undefined {
  if (dataDir === undefined) return undefined;
  if (!WITH_DATA_DIR.includes(workload)) {
    throw invalidArgument(`--data-dir needs --workload, with ${WITH_DATA_DIR.join(' or ')}.`);
  }
  return path.resolve(dataDir);
}

function ownMethod(module: string, taken: readonly string[]): Method {
  const name = path.basename(module, path.extname(module));
  if (taken.includes(name)) throw invalidArgument(`The study has a method ${name}. Give ${module} another name.`);
  const moduleHash = createHash('sha256').update(readCompressor(module)).digest('hex').slice(0, 12);
  return { name, method: 'customCompression', module, moduleHash, options: {} };
}

/** What may not change once a workload was trained. Methods may be added. */
function termsOf(plan: WorkloadPlan, size: StudySize): object {
  const { tests } = declarationOf([plan], size.quick);
  const others = { name: undefined, methods: undefined, paper: undefined }; // JSON leaves them out
  return { ...plan, ...size, tests, ...others };
}

function readCompressor(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch {
    throw invalidArgument(`${file} cannot be read. --compressor names a file that exports a compressor.`);
  }
}

/** The page of results that were written before. */
function pageFrom(file: string): string {
  const results = readResults(file);
  try {
    return studyPage(results);
  } catch (error) {
    throw invalidArgument(`${file} is damaged: ${(error as Error).message}`);
  }
}

function factsOf({ name, paper, ranks }: WorkloadPlan, trainings: readonly LoggedTraining[], given?: number) {
  const ofWorkload = trainings.filter(({ workload }) => workload === name);
  const { data, parameters } = ofWorkload.find(each => each.parameters > 0) ?? ofWorkload[0]!;
  return { name, data, parameters, ...(given === undefined && ranks && { ranks }), ...(paper && { paper }) };
}

/** Tells of a training, and how long the rest of its workload will take. */
function report(training: LoggedTraining, { tuned, paired, total }: StudyState): void {
  const { workload, method, isTuning, learningRate, seed, fold, score, seconds } = training;
  const done = [...tuned, ...paired];
  const meanSeconds = done.reduce((sum, each) => sum + each.seconds, 0) / done.length;
  const minutes = Math.ceil((meanSeconds * (total - done.length)) / 60);
  const what = isTuning ? `learning rate ${learningRate}` : `seed ${seed}, fold ${fold}`;
  const result = score === null ? 'diverged' : score.toPrecision(4);
  console.error(
    `${workload} ${done.length}/${total}  ${method}, ${what}: ${result} in ${seconds.toFixed(0)} s; about ${minutes} min left for ${workload}`,
  );
}

/** What a workload showed, for a terminal. */
function tableOf(workload: WorkloadResults, { declared }: StudyResults): string[] {
  const margin = declared.margins[workload.name]!;
  const words = wordsOf(margin, declared.baseline);
  const columns: Column<MethodResults>[] = [
    { heading: 'Method', value: row => row.name },
    { heading: words.score, value: row => (row.mean === null ? 'diverged' : words.scoreText(row.mean)) },
    {
      heading: 'Difference',
      value: ({ differenceFromDense: difference }) =>
        difference === null ? undefined : words.differenceWords(difference),
    },
    { heading: 'Verdict', value: row => row.verdict ?? undefined },
    { heading: 'Ratio', value: row => ratioText(row.ratio) },
  ];
  const { sameMethod, mustFail } = workload.controls;
  const control = (what: string, result: ControlResult | null) =>
    result === null ? [] : [`${what} (${result.method}): ${result.held ? 'as it must be' : 'NOT as it must be'}`];
  return [
    `${workload.name}: ${margin.score} ${words.margin}; ${workload.data}`,
    ...formatTable(columns, [...workload.methods, ...workload.ablation]),
    ...control('Control, the same method twice', sameMethod),
    ...control('Control, a method that must fail', mustFail),
  ];
}
