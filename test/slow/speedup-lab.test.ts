import { Progress } from '../../src/bench/progress';
import { measureRing, ringsToMeasure } from '../../src/bench/speedup/measure-rings';
import { Rings } from '../../src/bench/speedup/rings';
import { allOf } from '../../src/exchange/routes/route';
import { loadOf } from '../../src/bench/speedup/subject';
import { CONSTANTS, GIGABIT, SUBJECT } from '../bench/speedup-support';
import { describeWith } from './support/programs';

const rings = new Rings('off', new Progress());

describeWith(['ip'], 'rings in a network lab', () => {
  test.each(['exchange', 'travel'] as const)('%s', async part => {
    const load = loadOf(SUBJECT);
    const [sizes, rates, none] = [[2], [GIGABIT], []];
    const all = ringsToMeasure(sizes, part === 'exchange' ? rates : none, GIGABIT, load, CONSTANTS);
    const ring = all.find(of => of.part === part && of.way === 'dgc')!;
    const check = await measureRing(ring, SUBJECT, load, rings);
    expect(check).toMatchObject({
      nodes: 2,
      way: 'dgc',
      rate: '1gbit',
      part,
      predictedBytes: allOf(load.dgc).payloadBytes,
    });
    expect(Math.abs(check.sentBytes / check.predictedBytes - 1)).toBeLessThan(0.08);
    expect(check.ratio / (check.measuredMs / check.predictedMs)).toBeCloseTo(1, 1);
  });
});
