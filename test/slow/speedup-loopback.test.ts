import { Progress } from '../../src/bench/progress';
import { calibrate } from '../../src/bench/speedup/calibrate';
import { exchangeTimes } from '../../src/bench/speedup/cluster-model';
import { Rings, sparseCase } from '../../src/bench/speedup/rings';
import { allOf } from '../../src/exchange/routes/route';
import { loadOf, standInFor } from '../../src/bench/speedup/subject';
import { CONSTANTS, SUBJECT } from '../bench/speedup-support';

const rings = new Rings('off', new Progress());

describe('rings over loopback', () => {
  test('the constants are measured', async () => {
    const load = loadOf(SUBJECT);
    expect(allOf(load.dgc)).toMatchObject({ elements: 512 * 513, entries: Math.ceil(512 * 5.12) + 512 });
    const said: string[] = [];
    const constants = await calibrate(SUBJECT, load, rings, undefined, what => said.push(what));
    expect(Object.keys(constants)).toEqual(Object.keys(CONSTANTS));
    const differences = ['averageNs', 'decodeNs', 'linkByteNs']; // of two times, on a busy machine perhaps nothing
    for (const [name, value] of Object.entries(constants)) {
      const isIn = differences.includes(name) ? value >= 0 : value > 0;
      expect([name, isIn]).toEqual([name, true]);
    }
    expect(constants.lineShare).toBeCloseTo(0.9564, 4);
    expect(said.length).toBeGreaterThan(4);
  });

  test('a rank sends as many bytes as the model says, also with the gradient that stands in', async () => {
    const load = loadOf(SUBJECT);
    const standIn = standInFor(allOf(load.dgc).payloadBytes);
    const { tensors, density, values } = SUBJECT;
    const rows = await rings.run({
      ...{ ranks: 3, collective: 'sparse-all-reduce' },
      cases: [
        sparseCase(load.elements, { density, values, way: 'sparse', tensors }, 2, 1),
        sparseCase(standIn.elements, standIn.sparse, 2, 1),
        sparseCase(load.elements, { density: 1, values, way: 'dense', tensors }, 2, 1),
      ],
    });
    const dgc = exchangeTimes('dgc', load, { nodes: 3, bitsPerSecond: 1e9 }, CONSTANTS);
    const dense = exchangeTimes('dense', load, { nodes: 3, bitsPerSecond: 1e9 }, CONSTANTS);
    const ratios = [dgc, dgc, dense].map(({ sentBytes }, i) => rows[i]!.wireBytesSent / sentBytes);
    for (const ratio of ratios) expect(Math.abs(ratio - 1)).toBeLessThan(0.08); // other gradients, other lengths
    expect(rows.map(({ travelled }) => travelled)).toEqual(['sparse', 'sparse', 'dense']);
  });

  test('so it does in a mixed step', async () => {
    const tensors = [...SUBJECT.tensors, { name: 'norm', shape: [40_000] }];
    const { density, values } = SUBJECT;
    const load = loadOf({ tensors, density, values });
    const { whole, others } = load.dgc;
    expect(whole.elements).toBe(40_512);
    const predicted = exchangeTimes('dgc', load, { nodes: 6, bitsPerSecond: 1e9 }, CONSTANTS);
    expect(predicted.travelled).toBe('mixed');
    const standIn = standInFor(others.payloadBytes, whole.elements);
    const rows = await rings.run({
      ...{ ranks: 6, collective: 'sparse-all-reduce' },
      cases: [
        sparseCase(load.elements, { density, values, way: 'mixed', tensors }, 2, 1),
        sparseCase(standIn.elements, standIn.sparse, 2, 1),
      ],
    });
    expect(rows.map(({ travelled }) => travelled)).toEqual(['mixed', 'mixed']);
    for (const { wireBytesSent } of rows) {
      expect(Math.abs(wireBytesSent / predicted.sentBytes - 1)).toBeLessThan(0.08);
    }
  });
});
