import type { CompressedTensor, Compressor, CompressionRing } from '../../../src/compression/compressors/compressor';
import { lowRankCodes, type LowRankNumbers } from '../../../src/compression/compressors/low-rank';
import { randomOf } from '../../../src/compression/compressors/random-of';

/** The state of a tensor on one rank, and what a step did with it. */
export interface RankTensor {
  readonly residual: Float32Array;
  readonly shared: Float32Array;
  mean: Float32Array;
  /** The bytes of its messages in the last step. */
  messageBytes: number;
}

/** Ranks in one thread: each waits for the requests of all others, as the exchange does for a ring of processes. */
export class FakeRanks {
  readonly ranks: readonly RankTensor[];

  constructor(
    private readonly compressor: Compressor,
    private readonly shape: readonly number[],
    worldSize: number,
  ) {
    const length = shape.reduce((product, size) => product * size, 1);
    const sharedLength = compressor.sharedLength?.(shape) ?? 0;
    this.ranks = Array.from({ length: worldSize }, () => ({
      residual: new Float32Array(length),
      shared: new Float32Array(sharedLength),
      mean: new Float32Array(length),
      messageBytes: 0,
    }));
  }

  /** One step, with a gradient for each rank. Returns the means. */
  async step(gradients: readonly Float32Array[], step = 0, seed = 1): Promise<readonly Float32Array[]> {
    const { compressor, shape, ranks } = this;
    const rounds = new Map<string, { sent: unknown[]; all: Promise<unknown[]>; done: (all: unknown[]) => void }>();
    const together = <T>(kind: string, rank: number, round: number, sent: T): Promise<T[]> => {
      const key = `${round} ${kind}`;
      if (!rounds.has(key)) {
        let done!: (all: unknown[]) => void;
        const all = new Promise<unknown[]>(resolve => (done = resolve));
        rounds.set(key, { sent: [], all, done });
      }
      const each = rounds.get(key)!;
      each.sent[rank] = sent;
      if (Object.keys(each.sent).length === ranks.length) each.done(each.sent);
      return each.all as Promise<T[]>;
    };
    await Promise.all(
      ranks.map(async (own, rank) => {
        let round = 0;
        own.messageBytes = 0;
        const ring: CompressionRing = {
          rank,
          worldSize: ranks.length,
          gather: async (message, read) => {
            own.messageBytes += message.length;
            (await together('gather', rank, round++, message)).forEach(read);
          },
          mean: async values => {
            const all = await together('mean', rank, round++, values.slice());
            return values.map((_, i) => all.reduce((sum, each) => sum + each[i]!, 0) / ranks.length);
          },
          largest: async values => {
            const all = await together('largest', rank, round++, values.slice());
            return values.map((_, i) => Math.max(...all.map(each => each[i]!)));
          },
        };
        const { length } = own.residual;
        const values = gradients[rank]!.map((g, i) => g + (compressor.errorFeedback ? own.residual[i]! : 0));
        const sent = new Float32Array(compressor.errorFeedback ? length : 0);
        const mean = new Float32Array(length);
        const tensor: CompressedTensor = {
          ...{ shape, values: values.slice(), mean, sent, shared: own.shared },
          random: randomOf(seed, step, 0, rank),
        };
        await compressor.average(tensor, ring);
        if (compressor.errorFeedback) own.residual.set(values.map((value, i) => value - sent[i]!));
        own.mean = mean;
      }),
    );
    return ranks.map(({ mean }) => mean);
  }
}

/** Low rank as a compressor, for {@link FakeRanks}: what the exchange does with the codes of a tensor. */
export function lowRankCompressor(numbers: LowRankNumbers): Compressor & { readonly small: Compressor } {
  const codes = lowRankCodes(numbers);
  const compressor = (isSmall: boolean): Compressor => ({
    errorFeedback: true,
    messageBits: shape => codes.messageBits(shape, isSmall),
    async average({ shape, values, mean, sent, random }, ring) {
      const message = codes.code(shape, isSmall).encode(values, random);
      const sum = (messages: readonly Uint8Array[], into: Float32Array) => {
        const code = codes.code(shape, isSmall);
        code.clear();
        for (const each of messages) code.add(each);
        code.take(into, 1 / messages.length);
      };
      sum([message], sent);
      const messages: Uint8Array[] = [];
      await ring.gather(message, each => void messages.push(each));
      sum(messages, mean);
    },
  });
  return { ...compressor(false), small: compressor(true) };
}
