import type { Argv, CommandModule, Options } from 'yargs';
import { GradringError, invalidArgument } from '../../errors';
import { BACKEND_NAMES, type BackendName } from '../../tensorflow/backend-names';
import {
  JSON_OPTION,
  parseCount,
  parseName,
  parseNames,
  parseNumber,
  TEXT_OPTION,
  type Typed,
} from '../../command-line';
import { MODEL_NAMES, type ModelName, MODELS } from '../models/models';
import { elementCountOf, type TensorShape } from '../models/tensor-shape';
import type { OptimizerTimes } from './optimizer-measurement';
import { measureInProcess, type OptimizerOrder } from './optimizer-process';
import { Progress } from '../progress';
import { writeResults } from '../results';
import { rounded } from '../statistics';
import type { Column } from '../../table';

/** One line of `gradring bench optimizer --json`. */
export interface OptimizerRow extends OptimizerTimes {
  readonly bench: 'optimizer';
  readonly backend: BackendName;
  /** Undefined with `--parameters`. */
  readonly model?: ModelName;
  readonly parameters: number;
  readonly tensors: number;
  readonly density: number;
  readonly steps: number;
  /** With `--resnet50-step`: the forward and backward pass of ResNet-50 at batch size 8, in ms. */
  readonly stepMs?: number;
  /** wrapped ÷ step. */
  readonly shareOfStep?: number;
}

const OPTIONS = {
  model: {
    ...TEXT_OPTION,
    describe: `The model whose tensors are used: ${MODEL_NAMES.join(', ')} [default: resnet50]`,
  },
  parameters: { ...TEXT_OPTION, describe: 'This many parameters instead, in --tensors equal matrices' },
  tensors: { ...TEXT_OPTION, describe: 'The number of matrices [default: 16]' },
  backend: {
    ...TEXT_OPTION,
    describe: `${BACKEND_NAMES.join(', ')}; several with commas [default: all that are installed]`,
  },
  density: { ...TEXT_OPTION, default: '0.001', describe: 'The fraction of each tensor that a step sends' },
  steps: { ...TEXT_OPTION, default: '15', describe: 'How many steps of each optimizer are timed' },
  'resnet50-step': {
    type: 'boolean',
    default: false,
    describe:
      "Also time ResNet-50's forward and backward pass at batch size 8, to compare with (minutes without TensorFlow)",
  },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

/** `gradring bench optimizer`: what the wrapped optimizer costs beside the plain one, on each backend. */
export const optimizerBenchmark: CommandModule = {
  command: 'optimizer',
  describe: 'Time a wrapped optimizer beside the plain one, on each backend',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench optimizer [options]\n\nTimes applyGradients of tf.train.momentum, and of the same optimizer wrapped in a ring ' +
          'of one, by turns. Each backend has a process of its own. The times are medians; the ratio is wrapped ÷ plain. The ' +
          'parts of the wrapped step are: copy out (gradients to the arena), compress, exchange (encode, decode, and messages ' +
          'between the threads), copy in (the update becomes tensors and changes the variables). Backends that are not ' +
          'installed are left out.',
      )
      .options(OPTIONS)
      .example('$0 bench optimizer', 'the tensors of ResNet-50, on each backend')
      .example('$0 bench optimizer --parameters 1000000 --tensors 4 --backend wasm', 'four matrices, on wasm alone')
      .example(
        '$0 bench optimizer --backend tfjs-node-gpu --resnet50-step --json',
        'also as a share of a step, for programs',
      ),
  handler: async parsed => {
    const text = parsed as unknown as Words;
    const isNamed = text.backend !== undefined;
    const backends = isNamed ? parseNames(text.backend, 'backend', BACKEND_NAMES) : BACKEND_NAMES;
    const { model, tensors } = modelOf(text);
    const order = {
      tensors,
      density: parseNumber(text.density, {
        option: 'density',
        words: 'more than 0 and at most 1',
        accepts: value => value >= Number.EPSILON && value <= 1,
      }),
      steps: parseCount(text.steps, 'steps'),
      withResNet50Step: text['resnet50-step'],
    };
    await writeResults(
      backends.map(backend => () => measureBackend({ ...order, backend }, model, isNamed)),
      { json: text.json, columns: COLUMNS, describe: index => backends[index]! },
    );
  },
};

type Words = Typed<typeof OPTIONS>;

const COLUMNS: readonly Column<OptimizerRow>[] = [
  { heading: 'backend', value: row => row.backend },
  { heading: 'parameters', value: row => row.parameters, decimals: 0 },
  { heading: 'plain ms', value: row => row.plainMs, decimals: 2 },
  { heading: 'wrapped ms', value: row => row.wrappedMs, decimals: 2 },
  { heading: 'ratio', value: row => row.ratio, decimals: 2 },
  { heading: 'copy out ms', value: row => row.split.copyOut, decimals: 2 },
  { heading: 'compress ms', value: row => row.split.compress, decimals: 2 },
  { heading: 'exchange ms', value: row => row.split.exchange, decimals: 2 },
  { heading: 'copy in ms', value: row => row.split.copyIn, decimals: 2 },
  { heading: 'ResNet-50 step ms', value: row => row.stepMs, decimals: 0 },
  { heading: 'share of it', value: row => row.shareOfStep, decimals: 3 },
];

/**
 * @returns Undefined for a backend that is not installed, after a message. If it was asked for by name, this throws.
 */
async function measureBackend(
  order: OptimizerOrder,
  model: ModelName | undefined,
  isNamed: boolean,
): Promise<OptimizerRow | undefined> {
  const { backend, tensors, density, steps } = order;
  const answer = await measureInProcess(order);
  if (answer.absent !== undefined) {
    if (isNamed) throw new GradringError('ERR_BACKEND', answer.absent);
    say(`${backend} is left out. ${answer.absent}`);
    return undefined;
  }
  const { times, stepMs, stepFailure } = answer;
  if (stepFailure !== undefined) say(`ResNet-50's step cannot be timed on ${backend}: ${stepFailure}`);
  return {
    bench: 'optimizer',
    backend,
    ...(model !== undefined && { model }),
    parameters: elementCountOf(tensors),
    tensors: tensors.length,
    density,
    steps,
    ...times,
    ...(stepMs !== undefined && { stepMs, shareOfStep: rounded(times.wrappedMs / stepMs, 4) }),
  };
}

function say(line: string): void {
  new Progress().clear();
  console.error(line);
}

function modelOf({ model, parameters, tensors }: Words): { model?: ModelName; tensors: readonly TensorShape[] } {
  if (parameters === undefined) {
    if (tensors !== undefined) throw invalidArgument('--tensors goes with --parameters.');
    const name = parseName(model ?? 'resnet50', 'model', MODEL_NAMES);
    return { model: name, tensors: MODELS[name] };
  }
  if (model !== undefined) throw invalidArgument('--model and --parameters exclude each other.');
  const elements = parseCount(parameters, 'parameters');
  const count = parseCount(tensors ?? String(Math.min(DEFAULT_TENSORS, elements)), 'tensors', elements);
  // The first ones have one element more if the division leaves a rest.
  const sizeOf = (i: number): number => Math.floor(elements / count) + (i < elements % count ? 1 : 0);
  return { tensors: Array.from({ length: count }, (_, i) => ({ name: `matrix-${i}`, shape: [1, sizeOf(i)] })) };
}

const DEFAULT_TENSORS = 16;
