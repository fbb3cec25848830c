import { collectiveNamed } from '../../../src/bench/collectives/collectives';
import { planOf } from '../../../src/bench/collectives/plan';
import { Report } from '../../../src/bench/collectives/report';
import { eventStream } from '../../../src/bench/collectives/start-ranks';
import type { Medium } from '../../../src/bench/collectives/media';
import type { CollectiveRow } from '../../../src/bench/collectives/row';

const words = { json: false, 'no-check': false, transport: 'auto', 'step-factor': '4', 'max-bytes': '16' };
const plan = planOf(collectiveNamed('all-reduce'), words, 2);
const row: CollectiveRow = {
  ...{ collective: 'all-reduce', ranks: 2, elements: 1, bytes: 4, type: 'float32', op: 'sum', transport: 'auto' },
  carriedBy: ['unix-socket'],
  ...{
    iterations: 1,
    timeUs: { min: 1, p50: 2, p99: 3 },
    algbwGBps: 0.002,
    busbwGBps: 0.002,
    wireBytesSent: 9,
    wrong: 0,
  },
};

/** What a report of these rows writes to standard output. */
async function outputOf(json: boolean, rows: readonly CollectiveRow[], lineRate?: number): Promise<string> {
  let text = '';
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((chunk, ...rest) => {
    text += String(chunk);
    const done: unknown = rest.at(-1);
    if (typeof done === 'function') (done as () => void)();
    return true;
  });
  try {
    const report = new Report(plan, { json, html: undefined, lineRate, command: 'gradring' });
    for (const each of rows) report.row(each);
    await report.finish();
  } finally {
    write.mockRestore();
  }
  return text;
}

test('the table has the rows there are, even if the run was cut short', async () => {
  expect(await outputOf(false, [row])).toMatch(/\n\nsize  count .*\n 4 B      1  float32  sum .*\n$/);
  expect(await outputOf(false, [])).toBe('');
});

test('above the table stands what carried the data, how it was reduced, and what busbw is', async () => {
  const rows = [4, 16, 64, 256, 1024, 4096].map((bytes, i): CollectiveRow => {
    const carriedBy: Medium[] = i < 2 ? ['shared-memory', 'tcp'] : ['shared-memory', 'tcp-lane'];
    return { ...row, bytes, carriedBy, algorithm: i < 4 ? 'gather' : 'ring' };
  });
  const lines = (await outputOf(false, rows)).split('\n');
  expect(lines.slice(0, 2)).toEqual([
    'transport: shared memory between ranks of one host, not encrypted; TCP through ZeroMQ, not encrypted; a TCP connection beside each ZeroMQ link, not encrypted (--transport auto)',
    'algorithm: gathered whole by every rank up to 256 B, by the ring from 1 KiB',
  ]);
  expect(lines[2]).toMatch(/^busbw is the rate/);
  expect((await outputOf(false, [{ ...row, ranks: 1, carriedBy: [] }])).split('\n')[0]).toBe('transport: none: a single rank sends nothing'); // prettier-ignore
});

test('with --json each row is a line', async () => {
  expect(await outputOf(true, [row, row])).toBe(`${JSON.stringify(row)}\n`.repeat(2));
});

test('where the rate of the links is known, rows tell how much of it was used', async () => {
  expect(JSON.parse(await outputOf(true, [{ ...row, busbwGBps: 0.1 }], 1e9))).toMatchObject({ lineFraction: 0.8 });
});

test('one wrong row makes the run wrong', () => {
  const report = new Report(plan, { json: false, html: undefined, lineRate: undefined, command: 'gradring' });
  report.row(row);
  expect(report.wrong).toBe(false);
  report.row({ ...row, wrong: 1 });
  report.row(row);
  expect(report.wrong).toBe(true);
});

test('events of rank 0 may come in pieces; other words are passed on', () => {
  const heard: unknown[] = [];
  const stream = eventStream({ row: each => heard.push(each), progress: each => heard.push(each) }, line =>
    heard.push(line),
  );
  const text = `${JSON.stringify({ row })}\nhello\n${JSON.stringify({ progress: { row: 1, iterations: 2 } })}\n`;
  stream.write(text.slice(0, 50));
  stream.write(text.slice(50));
  expect(heard).toEqual([row, 'hello', { row: 1, iterations: 2 }]);
});
