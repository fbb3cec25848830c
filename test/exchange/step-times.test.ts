import type { ExchangeResult } from '../../src/exchange/messages';
import { lowRank } from '../../src/compression/compressors/custom-compression';
import { dgc, noCompression } from '../../src/compression/dgc-options';
import { closeRing, connectRing, sleep } from '../support/rings';

const VARIABLES = [{ name: 'w', shape: [200, 200] }];
const STEP = { momentumFactor: 0.9, sumOfSquares: 1 };
const LATE_MS = 1_000;

const COMPRESSIONS = { sparse: dgc({ sparsity: 0.99, warmUpEpochs: 0 }), dense: noCompression(), lowRank: lowRank() };
type Kind = keyof typeof COMPRESSIONS;

/** One step of each rank of a ring, after another that warms up; rank 0 comes late to it. */
async function stepOf(worldSize: number, kind: Kind): Promise<{ elapsed: number; result: ExchangeResult }[]> {
  const ring = await connectRing(worldSize);
  const compression = COMPRESSIONS[kind];
  const density = kind === 'sparse' ? 0.01 : 1;
  const results = await Promise.all(
    ring.map(async (communicator, rank) => {
      const exchange = communicator.openExchange({ variables: VARIABLES, compression, nesterov: false });
      exchange.gradient(0).fill(rank + 1);
      await exchange.start({ ...STEP, density }).promise;
      await communicator.barrier();
      if (rank === 0) await sleep(LATE_MS);
      const start = performance.now();
      const result = await exchange.start({ ...STEP, density }).promise;
      return { elapsed: performance.now() - start, result };
    }),
  );
  await closeRing(ring);
  return results;
}

describe.each(Object.keys(COMPRESSIONS) as Kind[])('the times of a %s step', kind => {
  test('are parts of it that do not overlap, and travelling waits for a late rank', async () => {
    const ranks = await stepOf(3, kind);
    for (const { elapsed, result } of ranks) {
      const { compress, encode, travel, decode } = result.timesMs;
      expect(compress + encode + travel + decode).toBeLessThanOrEqual(elapsed);
      for (const ms of [compress, travel, decode]) expect(ms).toBeGreaterThan(0);
      if (kind === 'dense') expect(encode).toBe(0);
      else expect(encode).toBeGreaterThan(0);
    }
    const { compress, encode, travel, decode } = ranks[1]!.result.timesMs;
    expect(travel).toBeGreaterThan(Math.max(compress, encode, decode));
    expect(ranks[0]!.result.timesMs.travel).toBeLessThan(travel);
  });

  test('have no travel in a ring of one', async () => {
    const { result } = (await stepOf(1, kind))[0]!;
    expect(result.timesMs).toMatchObject({ travel: 0 });
    expect(result.timesMs.compress).toBeGreaterThan(0);
    expect(result.timesMs.decode).toBeGreaterThan(0);
  });
});
