import { cleanUpRanks, startRanks } from '../support/rings';

const STEPS = 30_000;
/** Until the engine has compiled, and its heaps have found their sizes. */
const WARM_UP_STEPS = 5_000;

afterAll(cleanUpRanks);

test(`the resident memory of a rank stays flat over ${STEPS} steps`, async () => {
  const ranks = await startRanks(
    2,
    `
      const { dgc } = require(${JSON.stringify(require.resolve('../../dist/compression/dgc-options'))});
      const communicator = await Communicator.connect();
      const variables = [{ name: 'kernel', shape: [100, 200] }, { name: 'bias', shape: [200] }];
      const exchange = communicator.openExchange({ variables, compression: dgc({ sparsity: 0.99, warmUpEpochs: 0 }), nesterov: false });
      const pattern = Float32Array.from({ length: 40_000 }, (_, i) => Math.sin(i * i));
      const sizes = [];
      for (let step = 0; step < ${WARM_UP_STEPS + STEPS}; step++) {
        exchange.gradient(0).set(pattern.subarray(step % 20_000, (step % 20_000) + 20_000));
        exchange.gradient(1).fill(Math.cos(step));
        exchange.start({ density: 0.01, momentumFactor: 0.9, sumOfSquares: 1 }).sleep();
        if (step >= ${WARM_UP_STEPS} && (step + 1) % ${STEPS / 20} === 0) sizes.push(process.memoryUsage.rss());
      }
      await communicator.close();
      say(JSON.stringify(sizes));
    `,
  );
  for (const { ended } of ranks) {
    const { stdout, stderr } = await ended;
    expect(stderr).toBe('');
    const sizes = (JSON.parse(stdout) as number[]).map(bytes => bytes / 2 ** 20);
    expect(sizes).toHaveLength(20);
    // Garbage comes and goes, and has made 6 MiB of difference; but a payload, more than a kilobyte, that stayed at
    // each of the 22,500 steps between the first quarter and the last would make 24.
    const least = (from: number) => Math.min(...sizes.slice(from, from + 5));
    expect(least(15) - least(0)).toBeLessThan(12);
  }
}, 300_000);
