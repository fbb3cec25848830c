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
  const { density, values, way } = sparse!;
  const compression = dgc({ sparsity: 1 - density, warmUpSteps: 0, denseBelow: 0, values });
  const exchange = communicator.openExchange({
    variables: [{ name: 'gradient', shape: [1, elements] }],
    compression,
    nesterov: false,
    ...(way !== 'auto' && { travel: way }),
  });
  const source = new GradientSource('normal', elements, 1 + communicator.rank);
  const gradient = exchange.gradient(0);
  const step = {
    density: densityAt(compression, { epoch: undefined, step: 0 }),
    momentumFactor: MOMENTUM_FACTOR,
    sumOfSquares: 1, // nothing is clipped
    nonFiniteTensor: -1,
  };
  const reference = elements <= REFERENCE_ELEMENTS ? new SentReference(exchange, MOMENTUM_FACTOR) : undefined;
  let result: ExchangeResult;
  return {
    fill: () => {
      source.write(gradient, source.next());
      reference?.before();
    },
    run: () => void (result = exchange.runSync(step)),
    countWrong: () => Math.max(updatesThatDiffer(communicator, gradient), reference?.countWrong(communicator) ?? 0),
    details: () => ({ travelled: result.travel, timesMs: result.timesMs }),
    release: () => exchange.close(),
  };
}
