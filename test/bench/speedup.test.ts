import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  type ClusterLoad,
  type ClusterWay,
  exchangeTimes,
  impliedStepMs,
  speedUp,
  WAYS,
} from '../../src/bench/speedup/cluster-model';
import { readConstants } from '../../src/bench/speedup/constants-file';
import { ringsToMeasure } from '../../src/bench/speedup/measure-rings';
import { parseNodes } from '../../src/bench/speedup/nodes';
import { paperPoint, paperPoints, rowsOf, type SpeedUpResult, tableRows } from '../../src/bench/speedup/result';
import { speedUpChart } from '../../src/bench/speedup/speedup-page';
import { loadOf } from '../../src/bench/speedup/subject';
import { MODELS } from '../../src/bench/models/models';
import { gradringHere } from '../launcher/run-here';
import { cleanUp, ROOT, temporaryFolder } from '../launcher/support';
import { CONSTANTS, GIGABIT } from './speedup-support';
import { expectBenchRefusal, interruptedBench } from './commands';

afterEach(cleanUp);

const LOAD: ClusterLoad = {
  elements: 1e6,
  dgc: {
    whole: { elements: 0, entries: 0, payloadBytes: 0 },
    others: { elements: 1e6, entries: 1000, payloadBytes: 2000 },
  },
  lowRank: [{ elements: 1e6, bits: 64_000 }],
};
/** The load, of which so many elements are of a tensor that is sent whole. */
const withWhole = (elements: number): ClusterLoad => ({
  ...LOAD,
  dgc: { ...LOAD.dgc, whole: { elements, entries: elements, payloadBytes: 2 * elements } },
});
const FOUR = { nodes: 4, bitsPerSecond: 1e9 };

describe('the model, beside what was worked out by hand', () => {
  test('a compressed step', () => {
    // 1e6 · (2 + 1) + 1000 · (10 + 4 · 5) ns; 3 payloads of 2000 bytes at 8 ns, 2 hops of 1000 ns and 2000 · 0.5 ns.
    const times = exchangeTimes('dgc', LOAD, FOUR, CONSTANTS);
    const travelMs = (6000 * 8 + 2 * 2000) / 1e6;
    expect(times).toEqual({ travelled: 'sparse', computeMs: 3.03, travelMs, sentBytes: 6000 });
    // With an even and an odd number of ranks: 2 hops and 2.
    const five = exchangeTimes('dgc', LOAD, { ...FOUR, nodes: 5 }, CONSTANTS);
    expect(five.travelMs).toBeCloseTo((8000 * 8 + 2 * 2000) / 1e6, 12);
  });

  test('a compressed step is mixed where it is in a training', () => {
    const load = withWhole(50_000);
    // 3 payloads of 102,000 bytes, or 3 of 2,000 bytes and 6 rounds of 50,000: as many bytes, but fewer to decode.
    const mixed = exchangeTimes('dgc', load, FOUR, CONSTANTS);
    const travelMs = (6000 * 8 + 2 * 2000 + 6 * (50_000 * 8 + 1000)) / 1e6;
    expect(mixed).toEqual({ travelled: 'mixed', computeMs: 3.03, travelMs, sentBytes: 306_000 });
    // With hops this long the six rounds take more than that.
    const far = { ...CONSTANTS, hopNs: 1e6 };
    expect(exchangeTimes('dgc', load, FOUR, far)).toMatchObject({ travelled: 'sparse', sentBytes: 306_000 });
    // An array this short would be gathered anyway.
    const short = withWhole(1000);
    expect(exchangeTimes('dgc', short, FOUR, CONSTANTS)).toMatchObject({ travelled: 'sparse', sentBytes: 12_000 });
  });

  test('a step by the sparse reduce-scatter, whose bytes hardly grow', () => {
    // 1e6 · (2 + 1) + 1000 · (40 + 10 + 2 · 5) ns; 3 frames of 2 · 2000 ÷ 4 + 160 bytes at 8 ns; in 4 rounds hops of
    // 1000 ns and 1160 · 0.5 ns.
    const times = exchangeTimes('scatter', LOAD, FOUR, CONSTANTS);
    const travelMs = (3 * 1160 * 8 + 4 * (1000 + 580)) / 1e6;
    expect(times).toEqual({ travelled: 'scatter', computeMs: 3.06, travelMs, sentBytes: 3480 });
    // The small tensors take the dense ring, which has six rounds.
    const mixed = exchangeTimes('scatter', withWhole(50_000), FOUR, CONSTANTS);
    expect(mixed.sentBytes).toBe(3480 + 300_000);
    expect(mixed.travelMs).toBeCloseTo(travelMs + (6 * (50_000 * 8 + 1000)) / 1e6, 9);
    const many = exchangeTimes('scatter', LOAD, { ...FOUR, nodes: 64 }, CONSTANTS);
    expect(many.sentBytes).toBe((63 * (2 * 2000)) / 64 + 63 * 160);
  });

  test('a step of so high a density that a training sends it dense costs the dense ring', () => {
    const others = { elements: 1e6, entries: 250_000, payloadBytes: 600_000 };
    const load = { ...LOAD, dgc: { ...LOAD.dgc, others } };
    const dense = exchangeTimes('dense', load, { nodes: 16, bitsPerSecond: 10e9 }, CONSTANTS);
    const { travelled, computeMs, travelMs } = exchangeTimes(
      'dgc',
      load,
      { nodes: 16, bitsPerSecond: 10e9 },
      CONSTANTS,
    );
    expect({ travelled, travelMs }).toEqual({ travelled: 'dense', travelMs: dense.travelMs });
    expect(computeMs).toBe(3); // it accumulates and selects all the same
  });

  test('a dense step of chunks of one segment', () => {
    // 6 rounds of 1e6 bytes, of which each waits for the one before; 2 hops tell that all is finite.
    const times = exchangeTimes('dense', LOAD, FOUR, CONSTANTS);
    expect(times.sentBytes).toBe(6e6);
    expect(times.computeMs).toBeCloseTo(3, 12);
    expect(times.travelMs).toBeCloseTo((6 * (8e6 + 1000) + 2000) / 1e6, 9);
  });

  test('a dense step of long chunks hides its hops, unless these take longer than three segments', () => {
    // 16e6 bytes a chunk: 16 segments of 1e6 bytes, four together.
    const load = { ...LOAD, elements: 16e6 };
    expect(exchangeTimes('dense', load, FOUR, CONSTANTS).travelMs).toBeCloseTo((6 * 16 * 8e6 + 2000) / 1e6, 9);
    const slow = { ...CONSTANTS, hopNs: 30e6 };
    const slowMs = exchangeTimes('dense', load, FOUR, slow).travelMs;
    expect(slowMs).toBeCloseTo((6 * 4 * (8e6 + 30e6) + 60e6) / 1e6, 9);
  });

  test('in 16 bits a dense step sends half as much, and computes as much', () => {
    // 6 rounds of 500,000 bytes.
    const times = exchangeTimes('dense16', LOAD, FOUR, CONSTANTS);
    expect(times).toMatchObject({ travelled: 'dense', computeMs: 3, sentBytes: 3e6 });
    expect(times.travelMs).toBeCloseTo((6 * (4e6 + 1000) + 2000) / 1e6, 9);
  });

  test('a step of low rank: all-gather, with the dense ring for tensors whose messages would take longer', () => {
    // 1e6 · (6 + 4 · 0.5) ns; 3 messages of 8000 bytes at 8 ns, 2 hops of 1000 ns and 8000 · 0.5 ns.
    // Before that, 2 hops tell that all is finite.
    const travelMs = (2 * 1000 + 24_000 * 8 + 2 * 5000) / 1e6;
    const gathered = exchangeTimes('lowRank', LOAD, FOUR, CONSTANTS);
    expect(gathered).toEqual({ travelled: 'sparse', computeMs: 8, travelMs, sentBytes: 24_000 });
    // 24 bits for each of 50,000 elements: four messages have 96, where the dense ring sends 64, in 6 hops.
    const mixed = { ...LOAD, lowRank: [...LOAD.lowRank, { elements: 50_000, bits: 1_200_000 }] };
    const times = exchangeTimes('lowRank', mixed, FOUR, CONSTANTS);
    expect(times).toMatchObject({ travelled: 'mixed', computeMs: 8.15, sentBytes: 24_000 + 300_000 });
    expect(times.travelMs).toBeCloseTo(travelMs + (6 * (50_000 * 8 + 1000)) / 1e6, 9);
    const three = { ...FOUR, nodes: 3 };
    expect(exchangeTimes('lowRank', mixed, three, CONSTANTS).travelled).toBe('sparse');
    expect(paperPoints('alexnet', 'strong')).toEqual([]); // the paper has more examples on more nodes
    const dense = { ...LOAD, lowRank: [{ elements: 1e6, bits: 20e6 }] };
    const onRing = exchangeTimes('lowRank', dense, FOUR, CONSTANTS);
    expect(onRing).toEqual(exchangeTimes('dense', LOAD, FOUR, CONSTANTS));
  });

  test('a byte takes as long as the slower of link and host, and headers take their share of the link', () => {
    const byHost = { ...CONSTANTS, linkByteNs: 9, hopNs: 0 };
    expect(exchangeTimes('dgc', LOAD, FOUR, byHost).travelMs).toBeCloseTo((6000 * 9 + 2 * 2000 * 9) / 1e6, 12);
    const ringByHost = { ...CONSTANTS, ringByteNs: 9, hopNs: 0 };
    expect(exchangeTimes('dense', LOAD, FOUR, ringByHost).travelMs).toBeCloseTo(6 * 9, 9);
    const half = { ...CONSTANTS, lineShare: 0.5, hopNs: 0 };
    expect(exchangeTimes('dense', LOAD, FOUR, half).travelMs).toBeCloseTo(6 * 16, 9);
  });

  test('one node exchanges nothing', () => {
    const one = { ...FOUR, nodes: 1 };
    for (const way of Object.keys(WAYS) as ClusterWay[]) {
      expect(exchangeTimes(way, LOAD, one, CONSTANTS)).toMatchObject({ computeMs: 0, travelMs: 0, sentBytes: 0 });
    }
    expect(speedUp(1, 100, 0)).toBe(1);
    expect(speedUp(8, 100, 100)).toBe(4);
    expect(speedUp(8, 80, 10, 'strong')).toBe(4);
  });

  test('the step that the paper implies has its speed-up of 30 on links of 10 Gbit/s', () => {
    const elements = 61_100_840;
    const stepMs = impliedStepMs('alexnet', elements)!;
    const lineOnly = { ...CONSTANTS, ringByteNs: 0, denseNs: 0, hopNs: 0 };
    const cluster = { nodes: 64, bitsPerSecond: 10e9 };
    const { travelMs } = exchangeTimes('dense', { ...LOAD, elements }, cluster, lineOnly);
    expect(speedUp(64, stepMs, travelMs)).toBeCloseTo(30, 9);
    expect(impliedStepMs('resnet50', 1)).toBeUndefined();
  });
});

test('numbers of nodes', () => {
  expect(parseNodes('1..4', 'nodes')).toEqual([1, 2, 3, 4]);
  expect(parseNodes('8,2, 2..3', 'nodes')).toEqual([2, 3, 8]);
});

test.each(['', '0..4', '4..1', '1-4', '1..', 'x', '1,,2', '70000'])("'%s' is no number of nodes", text => {
  expect(() => parseNodes(text, 'nodes')).toThrow(`--nodes is '${text}'; it must be numbers from 1 to 65535`);
});

describe('rows', () => {
  const WEAK = { stepMs: 10, scaling: 'weak' } as const;
  const check = { way: 'dgc', rate: '1gbit', predictedMs: 1, ratio: 1, iterations: 1, predictedBytes: 1 } as const;
  const rows = rowsOf([1, 2, 3, 4], [GIGABIT], WEAK, LOAD, CONSTANTS, [
    { ...check, nodes: 2, part: 'exchange', measuredMs: 10, sentBytes: 7 },
    { ...check, nodes: 4, part: 'travel', measuredMs: 100, sentBytes: 8 },
  ]);
  const others = (way: string) => ['modelled', 'modelled', 'modelled', 'modelled'].map(source => `${way} ${source}`);
  const dgc = rows.filter(({ way }) => way === 'dgc');

  test('what was measured takes the place of what was modelled, and is marked', () => {
    expect(rows.map(({ way, source }) => `${way} ${source}`)).toEqual([
      ...[...others('dense'), ...others('dense16')],
      ...['modelled', 'measured', 'modelled', 'in parts'].map(source => `dgc ${source}`),
      ...[...others('scatter'), ...others('lowRank')],
    ]);
    expect(dgc[0]).toMatchObject({ exchangeMs: 0, speedUp: 1, sentBytes: 0 });
    expect(dgc[1]).toMatchObject({ exchangeMs: 10, speedUp: 1, sentBytes: 7 });
    expect(dgc[1]).not.toHaveProperty('computeMs');
    expect(dgc[3]).toMatchObject({ computeMs: 3.03, travelMs: 100, exchangeMs: 103.03, sentBytes: 8 });
  });

  test('a table of many shows powers of two, the last, and what was measured', () => {
    const many = rowsOf(parseNodes('1..20', 'nodes'), [GIGABIT], WEAK, LOAD, CONSTANTS, [
      { ...check, nodes: 3, part: 'exchange', measuredMs: 10, sentBytes: 7 },
    ]);
    const shown = tableRows(many).filter(({ way }) => way === 'dgc');
    expect(shown.map(({ nodes }) => nodes)).toEqual([1, 2, 3, 4, 8, 16, 20]);
    expect(tableRows(rows)).toEqual(rows);
  });

  test('the chart has a curve for each way and rate, with points where it was measured', () => {
    const paper = [{ model: 'alexnet', nodes: 4, way: 'dgc', rate: '1gbit', speedUp: 3, words: 'about 3' }] as const;
    const { xs, series, note } = speedUpChart({ model: 'alexnet', rows, paper } as unknown as SpeedUpResult);
    expect(xs).toEqual([1, 2, 3, 4]);
    expect(series.map(({ label, points }) => [label, points])).toEqual([
      ['ideal', undefined],
      ['low rank, 1gbit', []],
      ['DGC, scatter, 1gbit', []],
      ['DGC, 1gbit', [1, 3]],
      ['dense, 16 bits, 1gbit', []],
      ['dense, 1gbit', []],
      ['paper: DGC, 1gbit', 'only'],
    ]);
    expect(series.at(-1)!.values).toEqual([null, null, null, 3]);
    expect(note).toContain('DGC on 1gbit about 3.');
  });
});

test('each rank of a whole exchange has a processor; the travel of any ring is measured', () => {
  const rings = ringsToMeasure([2, 4096], [GIGABIT], { text: '10mbit', bitsPerSecond: 1e7 }, LOAD, CONSTANTS);
  const large = rings.filter(({ nodes }) => nodes === 4096);
  expect(large.map(({ way, rate, part }) => `${way} ${rate.text} ${part}`)).toEqual([
    'dense 10mbit travel',
    'dgc 10mbit travel',
  ]);
});

describe('the command', () => {
  const constantsFile = (content: string): string => {
    const file = path.join(temporaryFolder(), 'constants.json');
    writeFileSync(file, content);
    return file;
  };
  const run = (...args: string[]) => gradringHere('bench', 'speedup', ...args);

  test('with constants from a file it writes a table, an object and a page', async () => {
    const folder = temporaryFolder();
    const [json, html] = ['result.json', 'page.html'].map(name => path.join(folder, name)) as [string, string];
    const given = ['--constants', constantsFile(JSON.stringify({ constants: CONSTANTS }))];
    const what = ['--model', 'resnet50', '--step-ms', '250', '--rate', '10gbit,1gbit', '--nodes', '1..3,64'];
    const end = await run(...given, ...what, '--measure', 'none', '--json', json, '--html', html);
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    expect(end.stdout).toMatch(/^model: resnet50: 25,557,032 elements, 102,228,128 bytes$/m);
    expect(end.stdout).toMatch(/^DGC: density 0\.001, float16: 79,653 entries, a payload of 158,875 bytes \(643\.5 /m);
    expect(end.stdout).toMatch(/^10gbit +DGC +64 +modelled /m);
    expect(end.stdout).toMatch(/^10gbit +low rank +64 +modelled /m);

    const result = JSON.parse(readFileSync(json, 'utf8')) as SpeedUpResult;
    expect(result).toMatchObject({
      bench: 'speedup',
      model: 'resnet50',
      stepMs: 250,
      constants: CONSTANTS,
      checks: [],
    });
    expect(result.rows).toHaveLength(2 * 5 * 4);
    const last = result.rows.filter(({ way }) => way === 'dgc').at(-1)!;
    const load = loadOf({ tensors: MODELS.resnet50, density: 0.001, values: 'float16' });
    const times = exchangeTimes('dgc', load, { nodes: 64, bitsPerSecond: 10e9 }, CONSTANTS);
    expect(last).toMatchObject({ nodes: 64, way: 'dgc', rate: '10gbit', sentBytes: Math.round(times.sentBytes) });
    expect(last.travelled).toBe('mixed');
    expect(last.speedUp).toBeCloseTo((64 * 250) / (250 + times.computeMs + times.travelMs), 2);
    expect(readConstants(json)).toEqual(CONSTANTS);

    const page = readFileSync(html, 'utf8');
    expect(page).toContain('<h1>Speed-up of a cluster: resnet50</h1>');
    expect(page).toContain('"label":"DGC, 10gbit"');
    expect(page).toContain(`<td>${last.speedUp.toFixed(2)}</td>`);
  });

  test.each([
    [['--model', 'alexnett'], 'Did you mean alexnet?'],
    [['--model', 'vgg16-bn'], 'How long is a step of vgg16-bn on one node?'],
    [['--nodes', '1-64'], "--nodes is '1-64'; it must be numbers from 1 to 65535 and ascending ranges"],
    [['--rate', '1gbps'], "--rate is '1gbps'; it must be a rate such as"],
    [['--measure-rate', 'fast'], "--measure-rate is 'fast'; it must be a rate such as"],
    [['--step-ms', '0'], "--step-ms is '0'; it must be a time in ms, more than 0"],
    [['--density', '0.1,0.2'], "--density is '0.1,0.2'; it must be one number"],
    [['--values', 'int9'], 'Did you mean int8?'],
    [['--scaling', 'week'], 'Did you mean weak?'],
    [['--encryption', 'auto'], "--encryption is 'auto'; it must be one of on, off"],
    [['--json', '/nowhere/x.json'], "--json is '/nowhere/x.json', but /nowhere does not exist"],
    [['--constants', '/nowhere/x.json'], "--constants is '/nowhere/x.json', which cannot be read: ENOENT"],
    [['--measure', '1,2'], /--measure (is '1,2'; rings have 2 to 250 ranks|must run as root|needs)/],
    [['--node', '5'], 'Unknown option: --node. Did you mean --nodes?'],
  ] as const)('a wrong command line is one line and exit code 2: %j', (args, words) =>
    expectBenchRefusal(['speedup', ...args], words),
  );

  test.each([
    ['{', 'which cannot be read'],
    ['null', 'which has no constant compressNs'],
    [JSON.stringify({ constants: { ...CONSTANTS, hopNs: '1' } }), 'which has no constant hopNs'],
    [JSON.stringify({ constants: { ...CONSTANTS, lineShare: 0 } }), 'whose lineShare is 0'],
  ])('a file with %s has no constants', (content, words) => {
    expect(() => readConstants(constantsFile(content))).toThrow(words);
  });

  test('Ctrl-C ends it, and leaves no rank', async () => {
    const args = ['--model', 'resnet50', '--step-ms', '9', '--measure', 'none'];
    expect(await interruptedBench(['speedup', ...args])).toBe('');
  });
});

test('the tables of the docs are those of their data', () => {
  const file = (name: string): string => readFileSync(path.join(ROOT, 'docs', name), 'utf8');
  const { model, rows, checks, stepMs } = JSON.parse(file('data/speedup.json')) as SpeedUpResult;
  const page = file('performance.md').replace(/ +/g, ' ');
  const line = (...cells: (string | number)[]): string => `| ${cells.join(' | ')} |`.replace(/ +/g, ' ');
  const of = (nodes: number, way: string, rate: string) =>
    rows.find(row => row.nodes === nodes && row.way === way && row.rate === rate)!;
  for (const rate of ['1gbit', '10gbit']) {
    for (const way of Object.keys(WAYS) as ClusterWay[]) {
      const speedUps = [2, 4, 8, 16, 32, 64].map(nodes => of(nodes, way, rate).speedUp.toFixed(2));
      const paper = paperPoint(paperPoints(model, 'weak'), of(64, way, rate))?.words ?? '';
      expect(page).toContain(line(WAYS[way], rate, ...speedUps, paper));
    }
  }
  for (const { way, nodes, rate, part, predictedMs, measuredMs, ratio } of checks) {
    const times = [predictedMs, measuredMs].map(ms => Math.round(ms).toLocaleString('en-US'));
    expect(page).toContain(line(WAYS[way], rate, part, nodes, ...times, ratio.toFixed(2)));
    expect(Math.abs(ratio - 1)).toBeLessThan(0.2);
  }
  expect(new Set(checks.map(({ nodes }) => nodes))).toEqual(new Set([2, 4, 8, 16]));
  const largest = of(64, 'dgc', '1gbit');
  const worst = Math.max(...checks.map(({ ratio }) => ratio));
  const slower = (64 * stepMs) / (stepMs + largest.computeMs! + largest.travelMs! * worst);
  const words = page.replace(/\s+/g, ' ');
  expect(words).toContain(`train ${largest.speedUp} times as fast as one, or ${slower.toFixed(2)} times`);
  expect(words).toContain(`travel ${((worst - 1) * 100).toFixed(1)} % slower`);
  expect(words).toContain(
    `Of their exchange, ${Math.round((largest.computeMs! / largest.exchangeMs) * 100)} % is not the network`,
  );
});
