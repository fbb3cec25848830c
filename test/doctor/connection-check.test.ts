import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { answerCheck, checkConnection } from '../../src/doctor/connection-check';
import type { Finding } from '../../src/doctor/finding';
import { cleanUp, gradring, waitUntil } from '../launcher/support';
import { failureOf, freePort } from '../support/rings';

const HERE = '127.0.0.1';

const made: { close(): unknown }[] = [];
afterEach(async () => {
  made.splice(0).forEach(each => each.close());
  await cleanUp();
});

/** Another program that listens, and its port. */
async function program(serve: (socket: Socket) => void): Promise<number> {
  const server: Server = createServer(socket => {
    made.push({ close: () => socket.destroy() });
    serve(socket.on('error', () => undefined));
  });
  made.push(server);
  await once(server.listen(0, HERE), 'listening');
  return (server.address() as AddressInfo).port;
}

const ownPorts = (masterPort: number, range?: readonly [number, number]) => ({
  ...{ address: HERE, masterPort },
  range: range && { first: range[0], last: range[1] },
});
const check = (port: number) => checkConnection(HERE, port, ownPorts(1));

/** A host on which `doctor --listen` runs. */
async function listening(own: Parameters<typeof answerCheck>[0]): Promise<{ findings: Promise<Finding[]> }> {
  let findings!: Promise<Finding[]>;
  await new Promise<void>((resolve, reject) => {
    findings = answerCheck(own, resolve);
    findings.catch(reject);
  });
  return { findings };
}

const facts = (findings: readonly Finding[]) =>
  findings.map(({ what, verdict, details }) => [what, verdict, details['ports']]);
const open = (ports: readonly unknown[]) => Object.fromEntries(ports.map(port => [port, 'open']));
const portsOf = ({ details }: Finding) => Object.keys(details['ports'] as object).map(Number);

test('both sides tell which ports are open, in both directions', async () => {
  const [port, only] = [await freePort(), await freePort()];
  const { findings: theirs } = await listening(ownPorts(port, [only, only]));
  const findings = await check(port);
  const own = portsOf(findings[2]!);
  expect(own).toHaveLength(2);
  expect(facts(findings)).toEqual([
    ['Master port', 'ok', open([port])],
    ['From here', 'ok', open([only])],
    ['To here', 'ok', open(own)],
  ]);
  expect(facts(await theirs)).toEqual([
    ['From here', 'ok', open(own)],
    ['To here', 'ok', open([only])],
  ]);
});

test('of a range the first, a middle and the last port are tried; where one is in use, the next', async () => {
  const taken = await program(() => undefined);
  const port = await freePort();
  const { findings: theirs } = await listening(ownPorts(port, [taken, Math.min(taken + 100, 65_535)]));
  const tried = portsOf((await check(port))[1]!);
  expect(tried).toHaveLength(3);
  expect(tried[0]).toBeGreaterThan(taken);
  expect(tried[2]! - tried[0]!).toBeGreaterThan(50);
  await theirs;
});

test('what is blocked is told by port and direction', async () => {
  const dead = await freePort();
  const port = await program(socket => {
    createInterface({ input: socket }).once('line', () => {
      socket.write(`${JSON.stringify({ gradring: 'doctor', ports: [dead] })}\n`);
      socket.write(`${JSON.stringify({ outcomes: ['filtered', 'EHOSTUNREACH'] })}\n`);
    });
  });
  const [master, ...ways] = await check(port);
  expect(master!.verdict).toBe('ok');
  expect(ways.map(({ what, verdict, words }) => `${verdict} ${what}: ${words}`)).toEqual([
    `problem From here: to ${HERE}, port ${dead}: refused: a firewall rejects it`,
    expect.stringMatching(/^problem To here: from 127\.0\.0\.1, port \d+: filtered: no answer within 3 s, so a firew/),
    expect.stringMatching(/^problem To here: from 127\.0\.0\.1, port \d+: unreachable \(EHOSTUNREACH\): there is no/),
  ]);
});

test('if nothing listens, or nobody has that name, this is said', async () => {
  const port = await freePort();
  expect(await check(port)).toMatchObject([
    { verdict: 'problem', words: expect.stringMatching(/: refused: nothing listens there, .*doctor --listen' run/) },
  ]);
  expect(await checkConnection('no-such-host.invalid', port, ownPorts(1))).toMatchObject([
    { verdict: 'problem', words: expect.stringMatching(/^'no-such-host\.invalid' names no host: getaddrinfo/) },
  ]);
});

test.each([
  'SSH-2.0-OpenSSH_9.2\n',
  'null\n',
  '"doctor"\n',
  '{"gradring":"doctor","ports":[]}\n',
  '{"gradring":"doctor","ports":[0]}\n',
  '{"gradring":"doctor","ports":[1,2,3,4]}\n',
  'x'.repeat(5000),
])('an answer of another program is a warning (%#)', async answer => {
  const port = await program(socket => socket.write(answer));
  expect(await check(port)).toMatchObject([
    { what: 'Master port', verdict: 'ok' },
    {
      what: 'From here',
      verdict: 'warning',
      words: expect.stringMatching(/^what answers there is not 'gradring doct/),
    },
  ]);
});

test.each(['["open"]', '["open","\\u001b[2J"]', '"open"'])('outcomes of %s are none', async outcomes => {
  const dead = await freePort();
  const port = await program(socket =>
    socket.write(`{"gradring":"doctor","ports":[${dead}]}\n{"outcomes":${outcomes}}\n`),
  );
  const [, , toHere] = await check(port);
  expect(toHere).toMatchObject({ what: 'To here', verdict: 'problem', words: `${HERE} has not told what it found` });
});

test('strangers are sent away, and the next check is answered', async () => {
  const port = await freePort();
  const { findings: theirs } = await listening(ownPorts(port));
  for (const words of ['GET / HTTP/1.1\r\n', '7\n', '{"gradring":"doctor","ports":[1,2,3,4]}\n', 'x'.repeat(5000)]) {
    const socket = connect(port, HERE, () => socket.write(words)).on('error', () => undefined);
    socket.resume();
    await once(socket, 'close');
  }
  connect(port, HERE).on('error', () => undefined); // one that says nothing does not keep others out
  expect((await check(port)).map(({ verdict }) => verdict)).toEqual(['ok', 'ok', 'ok']);
  await theirs;
  expect(await check(port)).toMatchObject([{ verdict: 'problem' }]); // one check is all
});

test('ports that are in use are an error', async () => {
  const taken = await program(socket => socket.end());
  const error = await failureOf(listening(ownPorts(taken)));
  expect(error).toMatchObject({ code: 'ERR_ADDRESS_IN_USE', message: expect.stringContaining('--master-port here') });
  const own = ownPorts(await freePort(), [taken, taken]);
  for (const fail of [() => checkConnection(HERE, taken, own), () => listening(own)]) {
    const exhausted = await failureOf(fail());
    expect(exhausted).toMatchObject({ code: 'ERR_ADDRESS_IN_USE', message: expect.stringContaining('All ports') });
  }
});

test('gradring doctor --listen and --connect', async () => {
  const port = String(await freePort());
  const listens = gradring('doctor', '--listen', '--master-port', port);
  await waitUntil('it to listen', () => listens.stderr.includes('Ctrl-C ends it now.'));
  const connects = gradring('doctor', '--connect', `${HERE}:${port}`, '--json');
  expect((await connects.exited).exitCode).toBe(0);
  expect((await listens.exited).exitCode).toBe(0);
  const { ok, findings } = JSON.parse(connects.stdout) as { ok: boolean; findings: Finding[] };
  expect(ok).toBe(true);
  expect(findings.map(({ what }) => what)).toEqual(['Master port', 'From here', 'To here']);
  expect(listens.stdout).toMatch(
    /^ok +From here +to 127\.0\.0\.1, ports \d+, \d+: open\nok +To here +from .*: open\n$/,
  );
  const again = gradring('doctor', '--connect', `${HERE}:${port}`);
  expect((await again.exited).exitCode).toBe(1);
});

test.each([
  [['--connect', 'a:b'], "--connect is 'a:b'; a port is a whole number from 1 to 65535."],
  [['--connect', ':29511'], "--connect is ':29511'; it must be HOST or HOST:PORT."],
  [['--connect', '[::1]:0'], "--connect is '[::1]:0'; a port is"],
  [['--connect', 'a', '--master-port', 'x'], "--master-port is 'x'; a port is"],
  [['--connect', 'a', '--port-range', '7'], "--port-range is '7'; it must be the first and the last port"],
  [['--connect', 'a', '--listen'], '--listen is for one of two hosts, and --connect for the other.'],
])('%j is refused', async (options, words) => {
  const program = gradring('doctor', ...options);
  expect((await program.exited).exitCode).toBe(2);
  expect(program.stderr).toContain(`gradring: ERR_INVALID_ARGUMENT: ${words}`);
});
