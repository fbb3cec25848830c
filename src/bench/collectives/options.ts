import type { Options } from 'yargs';
import type { Reduction } from '../../communicator/communicator';
import { VALUE_FORMATS, type ValueFormat } from '../../compression/value-format';
import { JSON_OPTION, TEXT_OPTION } from '../../command-line';
import { type CollectiveBenchmark, REDUCTIONS, TYPES, WAYS, type Way } from './collective-benchmark';

const GROUPS = {
  sizes: {
    'min-bytes': { ...TEXT_OPTION, describe: 'The smallest size: 4, 64K, 1M, 100MB, with powers of 1024 [default: 4]' },
    'max-bytes': { ...TEXT_OPTION, describe: 'The largest size [default: 64M]' },
    'step-factor': { ...TEXT_OPTION, default: '4', describe: 'Each size is the one before times this factor' },
  },
  type: {
    type: { ...TEXT_OPTION, default: 'float32', describe: `The type of the elements: ${TYPES.join(', ')}` },
  },
  op: {
    op: { ...TEXT_OPTION, default: 'sum' satisfies Reduction, describe: `The reduction: ${REDUCTIONS.join(', ')}` },
  },
  root: {
    root: {
      ...TEXT_OPTION,
      describe: 'The rank that sends or gets all [default: 1; a broadcast then reaches rank 0, which is timed, last]',
    },
  },
  sparse: {
    elements: {
      ...TEXT_OPTION,
      describe: 'Elements of the gradient, instead of sizes; several with commas [default: 1000000,25600000]',
    },
    density: { ...TEXT_OPTION, default: '0.001', describe: 'The fraction that each rank sends; several with commas' },
    values: {
      ...TEXT_OPTION,
      default: 'float16' satisfies ValueFormat,
      describe: `The format of the values; several with commas: ${VALUE_FORMATS.join(', ')}`,
    },
    way: {
      ...TEXT_OPTION,
      default: 'auto' satisfies Way,
      describe: `How entries are sent; several with commas: ${WAYS.join(', ')}`,
    },
  },
} as const satisfies Record<string, Record<string, Options>>;

const COMMON = {
  ranks: {
    ...TEXT_OPTION,
    alias: 'n',
    describe: 'How many ranks to start on this host [default in a run: the ranks of the run]',
  },
  iterations: {
    ...TEXT_OPTION,
    describe: 'How many iterations are timed [default: 5 to 200, fewer with large arrays]',
  },
  'warm-up': {
    ...TEXT_OPTION,
    describe:
      'How many iterations run before the timed ones, such as 20; or a time, such as 5s, after half as many iterations [default: 3s for all sizes together, at least 0.5s for each]',
  },
  'no-check': { type: 'boolean', default: false, describe: 'Do not verify the results' },
  transport: { ...TEXT_OPTION, default: 'auto', describe: 'The connections between ranks of one host: auto, tcp, ipc' },
  encryption: {
    ...TEXT_OPTION,
    describe: 'Encrypt TCP: auto (between hosts), on, off [default: GRADRING_ENCRYPTION]',
  },
  netlab: {
    ...TEXT_OPTION,
    describe: 'Run in network namespaces with links of this rate, such as 1gbit (Linux, root)',
  },
  json: JSON_OPTION,
  html: { ...TEXT_OPTION, describe: 'Also write a page with charts to this file' },
} as const satisfies Record<string, Options>;

/** The options of the command of a benchmark. */
export function optionsOf({ options }: CollectiveBenchmark): Record<string, Options> {
  const { ranks, ...rest } = COMMON;
  return { ranks, ...Object.assign({}, ...options.map(name => GROUPS[name])), ...rest };
}

type GroupOption = {
  [G in keyof typeof GROUPS]: Exclude<keyof (typeof GROUPS)[G], symbol>;
}[keyof typeof GROUPS];

/**
 * The values of the options, as they were typed. Undefined for options that a benchmark lacks or that were not given.
 */
export type Words = {
  readonly [Name in GroupOption | Exclude<keyof typeof COMMON, 'json' | 'no-check'>]?: string;
} & { readonly json: boolean; readonly 'no-check': boolean };
