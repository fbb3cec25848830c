import type { FormRow } from '../../src/bench/form/form-ring';
import { processUse } from '../../src/bench/form/process-use';
import { cleanUp } from '../launcher/support';
import { benchOutputOfProcess, expectBenchRefusal, interruptedBench } from './commands';

afterEach(cleanUp);

test('a ring forms, with all of its ranks in two processes', async () => {
  const output = await benchOutputOfProcess('form', '-n', '5', '--json');
  const row = JSON.parse(output) as FormRow;
  expect(row).toMatchObject({ ranks: 5, processes: 2, transport: 'auto', encryption: 'auto' });
  // Join, listening, connected; roster, start, formed.
  expect(row.rendezvous).toMatchObject({ messagesReceived: 15, messagesSent: 15 });
  for (const bytes of [row.rendezvous.bytesReceived, row.rendezvous.bytesSent]) expect(bytes).toBeGreaterThan(15 * 20);
  expect(row.memoryBytes).toBeGreaterThan(50e6);
  expect(row.peakBytes).toBeGreaterThan(row.memoryBytes);
  for (const figure of [row.connectSeconds, row.barrierMs]) expect(figure).toBeGreaterThan(0);
  if (process.platform === 'linux') {
    expect(row.threads).toBeGreaterThan(5 + 2);
    expect(row.descriptors).toBeGreaterThan(5 * 5);
  }
});

test('a process knows what it uses', () => {
  const { memoryBytes, peakBytes } = processUse();
  expect(memoryBytes).toBeGreaterThan(10e6);
  expect(peakBytes).toBeGreaterThan(memoryBytes / 2);
});

test.each([
  [['-n', '1'], "--ranks is '1'; a ring has 2 to 65535 ranks"],
  [['-n', '70000'], "--ranks is '70000'; a ring has 2 to 65535 ranks"],
  [['-n', '4,x'], "--ranks is 'x'; it must be a whole number, 1 or more, or several"],
  [['-n', '4', '--processes', '5'], '--processes is 5, but there are only 4 ranks'],
  [['-n', '4', '--processes', '0'], "--processes is '0'; it must be a whole number, 1 or more"],
  [['-n', '201', '--processes', '1'], 'a process would have 201 of 201 ranks'],
  [['--transport', 'udp'], "--transport is 'udp'; it must be one of auto, tcp, ipc"],
  [['--encryption', 'yes'], "--encryption is 'yes'; it must be one of auto, on, off"],
] as const)('a wrong command line is one line and exit code 2: %j', (args, words) =>
  expectBenchRefusal(['form', ...args], words),
);

test('Ctrl-C leaves no process', async () => {
  expect(await interruptedBench(['form', '-n', '20'], 2)).toBe('');
});
