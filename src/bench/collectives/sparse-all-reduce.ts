import type { Communicator } from '../../communicator/communicator';
import type { ExchangeResult } from '../../exchange/messages';
import { dgc } from '../../compression/dgc-options';
import { densityAt } from '../../compression/sparsity-schedule';
import { GradientSource } from '../gradient-source';
import type { Case, CollectiveBenchmark, PreparedCase } from './collective-benchmark';
import { SentReference, updatesThatDiffer } from './sparse-check';

const MOMENTUM_FACTOR = 0.9;

/** Up to this many elements, the update is compared with a plain sum of what all ranks sent. */
const REFERENCE_ELEMENTS = 65_536;

export const sparseAllReduce: CollectiveBenchmark = {
  name: 'sparse-all-reduce',
  describe: 'Time a step: compress gradients, exchange them, and sum them',
  sizeMeans: 'of the gradient as float32',
  options: ['sizes', 'sparse'],
  busFactor: ranks => (2 * (ranks - 1)) / ranks,
  prepare,
};

function prepare(communicator: Communicator, { elements, sparse }: Case): PreparedCase {
  const { density, values, way, tensors } = sparse!;
  const options = { sparsity: 1 - density, warmUpSteps: 0, values };
  const compression = dgc(tensors === undefined ? { ...options, denseBelow: 0 } : options);
  const variables = tensors ?? [{ name: 'gradient', shape: [1, elements] }];
  const exchange = communicator.openExchange({
    variables,
    compression,
    nesterov: false,
    ...(way !== 'auto' && { route: way }),
  });
  const gradients = variables.map((_, i) => exchange.gradient(i));
  const largest = Math.max(...gradients.map(({ length }) => length));
  const source = new GradientSource('normal', largest, 1 + communicator.rank);
  const step = {
    density: densityAt(compression, { epoch: undefined, step: 0 }),
    momentumFactor: MOMENTUM_FACTOR,
    sumOfSquares: 1, // nothing is clipped
  };
  const reference =
    tensors === undefined && elements <= REFERENCE_ELEMENTS ? new SentReference(exchange, MOMENTUM_FACTOR) : undefined;
  let result: ExchangeResult | undefined;
  return {
    fill: () => {
      for (const gradient of gradients) source.write(gradient, source.next());
      reference?.before();
    },
    // The first step measures the links, as in a training.
    run: () => void (result = exchange.start({ ...step, links: result?.links }).sleep()),
    countWrong: () => {
      const differ = gradients.reduce((sum, gradient) => sum + updatesThatDiffer(communicator, gradient), 0);
      return Math.max(differ, reference?.countWrong(communicator) ?? 0);
    },
    details: () => ({ travelled: result!.route, timesMs: result!.timesMs }),
    release: () => exchange.close(),
  };
}
