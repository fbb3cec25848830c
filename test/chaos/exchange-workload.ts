import { createHash } from 'node:crypto';
import { Communicator } from '../../src/communicator/communicator';
import { dgc, noCompression } from '../../src/compression/dgc-options';
import type { ExchangeHandle } from '../../src/exchange/exchange-handle';
import type { Plan } from './plan';
import { report } from './rank-report';
import type { Workload } from './workload';

const VARIABLES = [
  { name: 'matrix', shape: [64, 40] },
  { name: 'bias', shape: [40] },
  { name: 'more', shape: [40, 10] },
];
const LEARNING_RATE = 0.05;
/** One step in so many also calls other collectives, one of them long. */
const OTHERS_EVERY = 8;
const LONG_ELEMENTS = 150_000;

/** The exchange as the optimizer uses it, without TensorFlow.js, whose loading takes longer than a run. */
export class ExchangeWorkload implements Workload {
  private readonly sync: boolean;
  private readonly exchange: ExchangeHandle;
  private readonly density: number;
  private readonly weights: Float32Array[];

  static async open(plan: Plan): Promise<ExchangeWorkload> {
    report({ meets: true });
    return new ExchangeWorkload(plan, await Communicator.connect());
  }

  private constructor(
    { compression, sync }: Plan,
    readonly ring: Communicator,
  ) {
    this.sync = sync;
    this.exchange = ring.openExchange({
      variables: VARIABLES,
      compression: compression === 'dgc' ? dgc({ sparsity: 0.95, warmUpSteps: 10, denseBelow: 500 }) : noCompression(),
      nesterov: false,
    });
    this.density = compression === 'dgc' ? 0.05 : 1;
    this.weights = VARIABLES.map(({ shape }) =>
      new Float32Array(shape.reduce((product, size) => product * size, 1)).fill(0.1),
    );
  }

  /** One step. Returns the SHA-256 of all weights. */
  async step(step: number): Promise<string> {
    let sumOfSquares = 0;
    this.weights.forEach((weights, v) => {
      const gradient = this.exchange.gradient(v);
      for (let i = 0; i < weights.length; i++) {
        gradient[i] = 0.1 * weights[i] + Math.sin(i * 0.7 + step * 1.3 + this.ring.rank * 2.1);
      }
      sumOfSquares += this.exchange.sumOfSquares(v);
    });
    const input = { density: this.density, momentumFactor: 0.9, sumOfSquares };
    if (this.sync) this.exchange.start(input).sleep();
    else await this.exchange.start(input).promise;
    this.weights.forEach((weights, v) => {
      const update = this.exchange.gradient(v);
      for (let i = 0; i < weights.length; i++) weights[i] -= LEARNING_RATE * update[i];
    });
    const hash = createHash('sha256');
    for (const weights of this.weights) hash.update(weights);
    if (step % OTHERS_EVERY === OTHERS_EVERY - 1) hash.update(await this.others(step));
    return hash.digest('hex');
  }

  /** Something that all ranks must come to alike. */
  private async others(step: number): Promise<Buffer> {
    const long = new Float32Array(LONG_ELEMENTS).fill(this.ring.rank + step);
    if (this.sync) this.ring.allReduceSync(long);
    else await this.ring.allReduce(long);
    const root = step % this.ring.worldSize;
    const told = await this.ring.broadcast(Float32Array.of(this.ring.rank, step), { root });
    await this.ring.barrier();
    return Buffer.concat([Buffer.from(long.buffer), Buffer.from(told.buffer)]);
  }

  spoil(): void {
    this.weights[0]![0]! += 1e-3;
  }
}
