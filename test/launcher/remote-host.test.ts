import path from 'node:path';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rootCauseOf } from '../../src/launcher/root-cause';
import { describeFailure } from '../../src/launcher/summary';
import { HOST_TIMES, type HostTimes, RemoteHost } from '../../src/launcher/hosts/remote-host';
import { launchPlan } from '../../src/launcher/launch';
import { type LaunchOptions, planLaunch } from '../../src/launcher/launch-options';
import { relayLines } from '../../src/launcher/line-splitter';
import type { RunningRank } from '../../src/launcher/rank-process';
import { ENDED, hear, outputEndOf, outputOf, replaceSsh, RUN_HERE, STARTED } from './fake-ssh';
import { Capture, cleanUp, gradring, isRunning, ROOT, SAY_READY, script, temporaryFolder, waitUntil } from './support';

const hosts: RemoteHost[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map(host => host.close()));
  jest.restoreAllMocks();
  await cleanUp();
});

const MEETING = { masterAddr: '127.0.0.1', masterPort: 1, runId: 'r', runToken: '0'.repeat(64), variables: {} };

const OUTPUT = { kind: 'output', rank: 0, stream: 'stdout', base64: 'eA==' };

/** The end of a rank, with something that cannot be. */
function endedWith(wrong: object): string {
  const outcome = { rank: 0, pid: 7, exitCode: 0, signal: null, afterMs: 1, ...wrong };
  return JSON.stringify({ kind: 'ended', outcome });
}

const PORT_WORDS = { masterAddr: 'masterAddr', masterPort: 'masterPort', place: 'h' };

/** For times after which something is given up. */
const SHORT_MS = 100;

/** The connection to a host with one rank, whose `ssh` is this shell script; and the launcher's own messages. */
function connectBy(ssh: string, times: Partial<HostTimes> = {}, file = script(''), name = 'h') {
  replaceSsh(ssh);
  const said: string[] = [];
  const ranks = { ranks: 1, firstRank: 0, worldSize: 1, gpusPerRank: 1 };
  const program = { folder: path.dirname(file), script: file, args: [], nodeArgs: [], env: {} };
  const assignment = { kind: 'assign', ...ranks, ...program } as const;
  const ownTimes = { ...HOST_TIMES, ...times };
  const host = new RemoteHost(name, [], assignment, async line => void said.push(line), ownTimes);
  hosts.push(host);
  return { host, said, times: ownTimes, folder: program.folder };
}

/** As {@link connectBy}, and starts the rank. */
async function startBy(...parameters: Parameters<typeof connectBy>) {
  const { host, said } = connectBy(...parameters);
  await host.prepare();
  const rank = host.start(0, MEETING);
  await rank.started;
  return { host, said, rank };
}

async function linesOf({ stdout }: RunningRank): Promise<string[]> {
  const lines: string[] = [];
  await relayLines(stdout, async more => void lines.push(...more));
  return lines;
}

describe('a rank that is started again', () => {
  const file = () => script('console.log(process.pid)');

  test('begins when all that its last process wrote was heard', async () => {
    const { host, rank } = await startBy(RUN_HERE, {}, file());
    await rank.ended;
    const second = host.start(0, MEETING);
    expect(second.pid).toBe(0); // nobody has taken the output yet
    expect(await linesOf(rank)).toEqual([String(rank.pid)]);
    rank.stderr.resume();
    await second.started;
    second.stderr.resume();
    expect(await linesOf(second)).toEqual([String(second.pid)]);
    expect(second.pid).not.toBe(rank.pid);
    expect(await second.ended).toMatchObject({ pid: second.pid, exitCode: 0 });
  });

  test.each<[string, (rank: RunningRank) => void]>([
    ['killed', rank => rank.kill()],
    ['ended by a signal', rank => rank.signal('SIGTERM')],
  ])('is not started if it is %s before', async (_, end) => {
    const { host, rank } = await startBy(RUN_HERE, {}, file());
    await rank.ended;
    const second = host.start(0, MEETING);
    end(second);
    await expect(second.started).rejects.toThrow('could not be started on h: it was not needed any more.');
    rank.stderr.resume();
    await linesOf(rank);
    const third = host.start(0, MEETING); // the connection stands
    await third.started;
    third.stderr.resume();
    expect(await linesOf(third)).toEqual([String(third.pid)]);
  });

  test('is not started if its host is lost before', async () => {
    const { host, rank } = await startBy(RUN_HERE, {}, file());
    await rank.ended;
    const second = host.start(0, MEETING);
    const failed = expect(second.started).rejects.toMatchObject({ code: 'ERR_RANK_FAILED' });
    expect(host.whyLost).toBeUndefined();
    await host.close();
    await failed;
    expect(host.whyLost).toBe('the connection to h is lost');
  });
});

/** Runs ranks on hosts, each of which is reached by this shell script. */
async function runBy(ssh: string, source: string, options: Partial<LaunchOptions> = {}) {
  replaceSsh(ssh);
  const [stdout, stderr] = [new Capture(), new Capture()];
  const plan = planLaunch({ script: script(source), hosts: [{ host: 'h', ranks: 1 }], stdout, stderr, ...options });
  return { ...(await launchPlan(plan)), stdout: stdout.lines, stderr: stderr.text };
}

describe('what describes the host of the launcher', () => {
  const before = { ...process.env };
  afterEach(() => (process.env = { ...before }));

  test('its GPUs are not those of other hosts', async () => {
    process.env['CUDA_VISIBLE_DEVICES'] = '7';
    const { stdout } = await runBy(
      `unset CUDA_VISIBLE_DEVICES; ${RUN_HERE}`,
      'console.log(process.env.CUDA_VISIBLE_DEVICES ?? "all")',
    );
    expect(stdout).toEqual(['[h 0] all']);
  });

  test('the connection of its terminal is none of its own agent', async () => {
    process.env['SSH_CONNECTION'] = '198.51.100.9 1 198.51.100.7 22';
    const { ownAddress, launcherAddress } = await connectBy('', {}, script(''), 'localhost').host.prepare();
    expect({ ownAddress, launcherAddress }).toEqual({ ownAddress: undefined, launcherAddress: undefined });
  });
});

test('a host with another Node is named before anything starts', async () => {
  const answer = `say '{"kind":"ready","hostId":"x","node":"v0.0.1","hasFolder":true}'; cat >/dev/null`;
  await expect(runBy(`${hear('assign')}; ${answer}`, '')).rejects.toThrow(
    `h has Node v0.0.1; this host has ${process.version}`,
  );
});

test('hosts without an id are not taken for one host', async () => {
  const old = `${hear('assign')}; say '{"kind":"ready","node":"v0.0.1"}'; cat >/dev/null`;
  const hosts = ['dead', 'old', 'older'].map(host => ({ host, ranks: 1 }));
  const run = runBy(`case "$*" in *dead*) exit 255;; esac; ${old}`, '', { hosts });
  await expect(run).rejects.toThrow(/\n {2}dead: [^]*\n {2}old has Node v0\.0\.1[^]*\n {2}older has Node v0\.0\.1/);
  await expect(run).rejects.not.toThrow('same host');
});

describe('what another host has otherwise', () => {
  test('each host looks for the loader of a script in TypeScript itself, and says why it has none', async () => {
    const file = script('console.log(1)', 'train.ts');
    const loader = path.join(path.dirname(file), 'node_modules/tsx');
    mkdirSync(loader, { recursive: true });
    writeFileSync(path.join(loader, 'index.js'), '');
    const options = { script: file, env: { NODE_OPTIONS: '--no-experimental-strip-types' } };
    const isKnown = process.allowedNodeEnvironmentFlags.has('--experimental-strip-types');
    const open = `chmod 777 ${loader}; ${RUN_HERE}`;
    await expect(runBy(open, '', isKnown ? options : { script: file })).rejects.toThrow(
      `No rank was started.\n  h: ${file} is TypeScript, which Node.js ${process.version} cannot run by itself, and ${loader} is not used, because everybody may write to ${loader}`,
    );
  });

  describe('a gradring that is not where the launcher has it', () => {
    const elsewhere = `for command; do :; done; exec sh -c "$(printf %s "$command" | sed s:${ROOT}/dist/cli.js:/no/such/cli.js:)"`;

    test('but in the working directory', async () => {
      const file = script('');
      const modules = path.join(path.dirname(file), 'node_modules');
      mkdirSync(modules);
      symlinkSync(ROOT, path.join(modules, 'gradring'));
      const { host } = connectBy(elsewhere, {}, file);
      expect(await host.prepare()).toMatchObject({ hasFolder: true });
    });

    test('and not there either', async () => {
      const { host, folder } = connectBy(elsewhere);
      await expect(host.prepare()).rejects.toThrow(
        `gradring is not installed: neither /no/such/cli.js nor ${folder}/node_modules/gradring/dist/cli.js is there`,
      );
    });
  });
});

describe('the output of a rank', () => {
  test('comes late over a slow network, after the end of its process, and is whole', async () => {
    const late = `say '${ENDED}'; sleep 1.2; say '${outputOf('late\n')}'; say '${outputEndOf('stdout')}'`;
    const { rank } = await startBy(`${STARTED}; ${late}; cat >/dev/null`);
    const lines = linesOf(rank);
    expect(await rank.ended).toMatchObject({ exitCode: 0, host: 'h' });
    expect(await lines).toEqual(['late']);
  });

  test('may be large', async () => {
    const lines = 60_000;
    const source = `process.stdout.write(('x'.repeat(99) + '\\n').repeat(${lines}))`;
    const { exitCode, stdout, stderr } = await runBy(RUN_HERE, source);
    expect({ exitCode, stderr, lines: stdout.length }).toEqual({ exitCode: 0, stderr: '', lines });
    expect(new Set(stdout)).toEqual(new Set([`[h 0] ${'x'.repeat(99)}`]));
  });

  test('ends, though a process that the rank left behind has its pipes', async () => {
    const source = `
      if (process.env.RANK === '0') require('node:child_process').spawn('sleep', ['5'], { detached: true, stdio: 'inherit' }).unref();
      console.log('done');`;
    const { exitCode, stdout } = await runBy(RUN_HERE, source, { hosts: [{ host: 'h', ranks: 2 }] });
    expect({ exitCode, stdout: stdout.toSorted() }).toEqual({ exitCode: 0, stdout: ['[h 0] done', '[h 1] done'] });
  });

  test('holds nothing up when nobody takes it: Ctrl-C ends ranks and launcher', async () => {
    const file = script(
      `process.stdout.write('y'.repeat(4e6)); console.error('all is written'); setInterval(() => 0, 1e6)`,
    );
    const launcher = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'run', '-H', 'localhost', file]);
    const said = { stderr: '' };
    launcher.stderr.on('data', (bytes: Buffer) => (said.stderr += String(bytes)));
    const ended = new Promise(resolve => launcher.once('exit', (code, signal) => resolve(signal ?? code)));
    await waitUntil('the rank', () => said.stderr.includes('all is written'));
    await waitUntil('the end', () => !launcher.kill('SIGINT'));
    expect(await ended).toBe('SIGINT');
  });
});

describe('a host is given up', () => {
  test.each([
    ['its first answer', 'sleep 60 & echo $! >PIDS; wait', 'prepare'],
    ['the answer with a port', `${hear('assign')}; say '{"kind":"ready"}'; sleep 60 & echo $! >PIDS; wait`, 'findPort'],
  ] as const)('without %s, even if ssh has children', async (_, ssh, question) => {
    const pids = path.join(temporaryFolder(), 'pids');
    const { host, times } = connectBy(ssh.replace('PIDS', pids));
    if (question === 'findPort') await host.prepare();
    await waitUntil('the children', () => existsSync(pids) && readFileSync(pids, 'utf8').endsWith('\n'));
    times.answerMs = 5 * SHORT_MS;
    await expect(host[question]('127.0.0.1', PORT_WORDS)).rejects.toThrow(/^it gave no answer in 0\.5 s$/);
    await host.close();
    await waitUntil('the children to end', () => !isRunning(Number(readFileSync(pids, 'utf8'))));
  });

  test('when it does not say that a rank has started', async () => {
    const { host, times } = connectBy(`${hear('assign')}; say '{"kind":"ready"}'; cat >/dev/null`);
    await host.prepare();
    times.answerMs = SHORT_MS;
    await expect(host.start(0, MEETING).started).rejects.toMatchObject({
      code: 'ERR_RANK_FAILED',
      message: 'Rank 0 could not be started on h: it gave no answer in 0.1 s.',
    });
  });

  test('when it does not say that a rank that was killed has ended', async () => {
    const { rank, said } = await startBy(`${STARTED}; cat >/dev/null`, { endMs: SHORT_MS });
    const lines = linesOf(rank);
    rank.kill();
    expect(await rank.ended).toMatchObject({ rank: 0, pid: 7, signal: 'SIGKILL', connectionLost: true, host: 'h' });
    expect(await lines).toEqual([]);
    expect(said).toEqual([
      'gradring: the connection to h is lost: it did not tell in 0.1 s that its ranks are killed.',
    ]);
  });

  test('when the connection does not end', async () => {
    const { host, rank, said } = await startBy(`${STARTED}; say '${ENDED}'; sleep 60`, { endMs: SHORT_MS });
    await rank.ended;
    await host.close();
    expect(said).toEqual([]);
  });

  test('but not because ssh leaves a process behind that has its error output', async () => {
    const leave = 'setsid sleep 5 >/dev/null & cat >/dev/null; exit 0';
    const { host, rank, said } = await startBy(`${STARTED}; say '${ENDED}'; ${leave}`, { endMs: 60_000 });
    await rank.ended;
    await host.close();
    expect(said).toEqual([]);
  });

  test.each([
    ...[
      '{"kind":"ended"}',
      '{"kind":"ended","outcome":{"rank":3}}',
      '{"kind":"gone","rank":1}',
      '{"kind":"__proto__"}',
    ],
    ...[{ exitCode: {} }, { exitCode: '0' }, { exitCode: 256 }, { exitCode: -1 }, { exitCode: 0.5 }].map(endedWith),
    ...[{ exitCode: null }, { signal: 'SIGKILL' }, { exitCode: null, signal: 'SIGFOO' }].map(endedWith),
    ...[{ exitCode: null, signal: '\u001b[2J' }, { pid: 0 }, { afterMs: '1' }, { afterMs: -1 }, { rank: 1 }].map(
      endedWith,
    ),
    ...['{"kind":"started","rank":0,"pid":7}', '{"kind":"not started","rank":0,"message":"no"}'],
    ...[{ length: 5e9 }, [7], '', '\u001b[2J'].map(base64 => JSON.stringify({ ...OUTPUT, base64 })),
    ...[
      JSON.stringify({ ...OUTPUT, stream: 'stdin' }),
      JSON.stringify({ ...OUTPUT, rank: 1 }),
      outputOf('not asked for'),
    ],
    ...['{"kind":"output end","rank":0}', '{"kind":"output end","rank":"0","stream":"stdout"}'],
  ])('when it sends %s', async message => {
    const { rank, said } = await startBy(`${STARTED}; say '${message}'; cat >/dev/null`);
    expect(await rank.ended).toMatchObject({ connectionLost: true });
    expect(said).toEqual([`gradring: the connection to h is lost: it sent ${message}, which is no message.`]);
  });
});

describe('what a host sends', () => {
  const READY = '{"kind":"ready"}';

  test('is a message of 1 MiB at most, and no line without an end', async () => {
    const { host } = connectBy("yes | tr -d '\\n'");
    await expect(host.prepare()).rejects.toThrow('it sent a line of more than 1048576 characters');
  });

  test.each(['{"kind":"port","port":1}', '{"kind":"no port","message":"no"}', '{"kind":"started","rank":0,"pid":7}'])(
    'is an answer to what it was asked: not %s',
    async message => {
      const { host } = connectBy(`${hear('assign')}; say '${message}'; cat >/dev/null`);
      await expect(host.prepare()).rejects.toThrow(`it sent ${message}, which is no message`);
    },
  );

  test.each([
    ...['{"kind":"ready","hostId":7}', '{"kind":"ready","node":"v1\\u001b[2J"}', '{"kind":"ready","hasFolder":"yes"}'],
    ...['{"kind":"ready","ownAddress":"printer.example"}', '{"kind":"ready","launcherAddress":"10.0.0.7;reboot"}'],
  ])('is an answer that can be true: not %s', async message => {
    const { host } = connectBy(`${hear('assign')}; say '${message}'; cat >/dev/null`);
    await expect(host.prepare()).rejects.toThrow(`it sent ${message}, which is no message`);
  });

  test.each(['{"kind":"port","port":0}', '{"kind":"port","port":70000}', '{"kind":"port","port":"1"}', READY])(
    'is a port: not %s',
    async message => {
      const { host } = connectBy(
        `${hear('assign')}; say '${READY}'; ${hear('find port')}; say '${message}'; cat >/dev/null`,
      );
      await host.prepare();
      await expect(host.findPort('127.0.0.1', PORT_WORDS)).rejects.toThrow(`it sent ${message}, which is no message`);
    },
  );

  test('moves no cursor: neither what ssh says, nor a message that is none', async () => {
    const banner = "printf '\\033[31mhe\\033[0mllo\\033]0;x\\302\\233\\342\\200\\256\\n' >&2";
    const control = 'say "$(printf \'{"kind":"\\302\\233"}\')"';
    const { rank, said } = await startBy(`${STARTED}; ${banner}; ${hear('kill')}; ${control}; cat >/dev/null`);
    await waitUntil('the banner', () => said.length > 0);
    rank.kill();
    await rank.ended;
    expect(said).toEqual([
      'gradring: h: hello;x\\u{9b}\\u{202e}',
      'gradring: the connection to h is lost: it sent {"kind":"\\u{9b}"}, which is no message.',
    ]);
  });

  test('moves no cursor when it tells why a rank was not started', async () => {
    const no = '{"kind":"not started","rank":0,"message":"\\u001b[2J"}';
    const { host } = connectBy(`${hear('assign')}; say '${READY}'; ${hear('start')}; say '${no}'; cat >/dev/null`);
    await host.prepare();
    const words = 'Rank 0 could not be started on h: \\u{1b}[2J.';
    await expect(host.start(0, MEETING).started).rejects.toThrow(words);
  });

  test('about the end of a rank is what the launcher tells, and no more', async () => {
    const { rank } = await startBy(
      `${STARTED}; say '${endedWith({ connectionLost: true, host: 'x', more: {} })}'; cat >/dev/null`,
    );
    const { afterMs, ...outcome } = await rank.ended;
    expect(outcome).toEqual({ rank: 0, pid: 7, exitCode: 0, signal: null, host: 'h' });
    expect(afterMs).toBe(1);
  });

  test('is told no faster than the user takes it', async () => {
    replaceSsh(`${STARTED}; yes noise | head -n 100000 >&2; cat >/dev/null`);
    let take = (): void => undefined;
    const said: string[] = [];
    const say = (line: string) => {
      said.push(line);
      return new Promise<void>(resolve => (take = resolve));
    };
    const ranks = { ranks: 1, firstRank: 0, worldSize: 1, gpusPerRank: 1 };
    const program = { folder: '/', script: script(''), args: [], nodeArgs: [], env: {} };
    const host = new RemoteHost('h', [], { kind: 'assign', ...ranks, ...program }, say, {
      ...HOST_TIMES,
      endMs: SHORT_MS,
    });
    hosts.push(host);
    await host.prepare();
    await host.start(0, MEETING).started;
    for (let lines = 1; lines <= 3; lines += 1) {
      await waitUntil('a line', () => said.length >= lines);
      for (let turns = 0; turns < 100; turns += 1) await new Promise(resolve => setImmediate(resolve));
      expect(said).toEqual(Array<string>(lines).fill('gradring: h: noise'));
      take();
    }
  });

  test('need not be the rest of what a rank wrote: it is not awaited for ever', async () => {
    const { rank, said } = await startBy(`${STARTED}; say '${ENDED}'; cat >/dev/null`, { restMs: SHORT_MS });
    expect(await linesOf(rank)).toEqual([]);
    expect(await rank.ended).toMatchObject({ exitCode: 0 });
    expect(said).toEqual([
      'gradring: the connection to h is lost: it did not send in 0.1 s the rest of what rank 0, which has ended, wrote.',
    ]);
  });
});

describe('a connection that is lost', () => {
  test('is told, with the last words of ssh, and with how long its ranks ran', async () => {
    const { rank, said } = await startBy(`${STARTED}; echo 'Broken pipe' >&2; exit 255`);
    const outcome = await rank.ended;
    expect(said.at(-1)).toBe('gradring: the connection to h is lost: ssh ended with code 255: Broken pipe.');
    expect(outcome.afterMs).toBeGreaterThan(0);
    const end = { outcomes: [outcome], reports: new Map(), ended: new Set<number>(), members: undefined };
    const cause = rootCauseOf(outcome, { ...end, failure: outcome, interruptedBy: undefined });
    expect(describeFailure(outcome, cause, end)).toMatch(
      /^gradring: rank 0 \(on h, pid 7\) was lost with the connection to its host after \d+\.\d s; root cause\.$/,
    );
  });

  test('is no question that waits for ever, and no rank', async () => {
    const { host } = connectBy('exit 3');
    const words = 'ssh ended with code 3';
    await expect(host.prepare()).rejects.toThrow(words);
    await expect(host.findPort('127.0.0.1', PORT_WORDS)).rejects.toThrow(words);
    await expect(host.start(0, MEETING).started).rejects.toThrow(words);
  });
});

describe('a launcher that is gone', () => {
  const stay = () => script(`${SAY_READY} setInterval(() => 0, 1e6)`);

  test('and whose end nobody tells: the agent notices that it is silent, and ends its ranks', async () => {
    const { rank, said } = await startBy(RUN_HERE, { aliveMs: 60_000, silentMs: 30 * SHORT_MS }, stay());
    expect(await rank.ended).toMatchObject({ connectionLost: true });
    const reason = 'the launcher was silent for 3 s, so the ranks were ended';
    expect(said.at(-1)).toBe(`gradring: the connection to h is lost: ssh ended with code 0: ${reason}.`);
    await waitUntil('the rank to end', () => !isRunning(rank.pid));
  });

  test('says meanwhile that it is alive', async () => {
    const alive = hear('alive');
    const { rank } = await startBy(`${STARTED}; ${alive}; ${alive}; say '${ENDED}'; cat >/dev/null`, { aliveMs: 10 });
    expect(await rank.ended).toMatchObject({ exitCode: 0 });
  });

  test('no agent outlives it, though a process that a rank left behind has its pipes', async () => {
    const file = script(`
      require('node:child_process').spawn('sleep', ['10'], { detached: true, stdio: 'inherit' }).unref();
      console.log('agent ' + process.ppid);
      setInterval(() => 0, 1e6);`);
    const launcher = gradring('run', '-H', 'localhost', file);
    await waitUntil('the rank', () => launcher.stdout.includes('agent'));
    const agent = Number(/agent (\d+)/.exec(launcher.stdout)![1]);
    expect(isRunning(agent)).toBe(true);
    launcher.child.kill('SIGKILL');
    await waitUntil('the agent to end', () => !isRunning(agent));
  });
});

describe('what ssh and the shell print', () => {
  test('on the standard output does no harm, with or without an end of line', async () => {
    const { exitCode, stdout, stderr } = await runBy(
      `echo Welcome; printf '\\033]0;title\\007'; ${RUN_HERE}`,
      'console.log(JSON.stringify([process.argv.slice(2), process.env.NAME, process.cwd()]))',
      { args: ["it's", 'a\u2028b', 'é "$x"', ''], env: { NAME: 'a\u2029\nb' } },
    );
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const seen: unknown = JSON.parse(stdout[0]!.slice('[h 0] '.length));
    expect(seen).toEqual([["it's", 'a\u2028b', 'é "$x"', ''], 'a\u2029\nb', process.cwd()]);
  });

  test('on the error output is told line by line, however its bytes arrive', async () => {
    const error = "printf 'caf\\303' >&2; sleep 0.1; printf '\\251\\nend' >&2";
    const { host, said } = await startBy(`${STARTED}; ${error}; say '${ENDED}'; cat >/dev/null`);
    await host.close();
    expect(said).toEqual(['gradring: h: café', 'gradring: h: end']);
  });

  test('is told if ssh itself fails, with the command that must work', async () => {
    const { host } = connectBy("echo 'Permission denied (publickey).' >&2; exit 255");
    const words = "ssh ended with code 255: Permission denied (publickey). 'ssh h true' must work without a question";
    await expect(host.prepare()).rejects.toThrow(words);
  });

  test('is the reason of an end: the error of a Node that is too old, not its last line', async () => {
    const file = script('a b ?');
    const { host } = connectBy(`exec '${process.execPath}' '${file}'`);
    await expect(host.prepare()).rejects.toThrow(/^ssh ended with code 1: SyntaxError: Unexpected identifier\b[^(]*$/);
  });
});

describe('no rank is started', () => {
  const refusal = (message: string | RegExp) => ({
    code: 'ERR_RANK_FAILED',
    message: expect.stringMatching(message) as string,
  });

  test('if two names mean one host', async () => {
    const hosts = [
      { host: 'localhost', ranks: 1 },
      { host: 'vm', ranks: 1 },
    ];
    await expect(runBy(RUN_HERE, '', { hosts })).rejects.toMatchObject(
      refusal(/^No rank was started\.\n {2}vm is the same host as localhost; give it all its ranks at once$/),
    );
  });

  test('if a host is without the folder or the script, or cannot be reached', async () => {
    const ssh = `case "$*" in *' far '*) exit 7;; esac; rm SCRIPT; ${RUN_HERE}`;
    const file = script('');
    const hosts = ['near', 'far'].map(host => ({ host, ranks: 1 }));
    await expect(runBy(ssh.replace('SCRIPT', file), '', { hosts, script: file })).rejects.toMatchObject(
      refusal(/^No rank was started\.\n {2}near has no \/.*\/script\.js\n {2}far: ssh ended with code 7$/),
    );
  });

  test('if the system does not start it, for the reason that the system gives', async () => {
    await expect(runBy(RUN_HERE, '', { env: { LARGE: 'x'.repeat(200_000) } })).rejects.toMatchObject(
      refusal(/^Rank 0 could not be started on h: spawn E2BIG\.$/),
    );
  });

  test('if the master has another address than rank 0', async () => {
    await expect(runBy(RUN_HERE, '', { masterAddr: '192.0.2.1' })).rejects.toMatchObject({
      code: 'ERR_ADDRESS_IN_USE',
      message: '192.0.2.1 is no address of h, where rank 0 runs. Correct masterAddr.',
    });
  });
});

test('of many hosts, few log in at a time', async () => {
  const folder = temporaryFolder();
  const count = `mkdir '${folder}/'$$; ls '${folder}' | wc -l; sleep 0.1; rmdir '${folder}/'$$`;
  const hosts = Array.from({ length: 20 }, (_, i) => ({ host: `h${i}`, ranks: 1 }));
  const refusal = runBy(`n=$(${count}); echo "$n at once"; exit 1`, '', { hosts });
  const { message } = await refusal.then(
    () => new Error('none'),
    (error: Error) => error,
  );
  const counts = [...message.matchAll(/: (\d+) at once$/gm)].map(([, count]) => Number(count));
  expect({ message, counts: counts.length }).toEqual({ message, counts: 20 }); // with the message, if one is missing
  expect(Math.max(...counts)).toBeLessThanOrEqual(8);
});

test('a variable of this host only is not passed on', async () => {
  process.env['GRADRING_ADVERTISE_ADDR'] = '10.0.0.1';
  process.env['ANOTHER'] = 'x';
  try {
    const { stdout } = await runBy(
      `unset GRADRING_ADVERTISE_ADDR ANOTHER; ${RUN_HERE}`,
      'console.log(process.env.GRADRING_ADVERTISE_ADDR, process.env.ANOTHER)',
    );
    expect(stdout).toEqual(['[h 0] undefined x']);
  } finally {
    delete process.env['GRADRING_ADVERTISE_ADDR'];
    delete process.env['ANOTHER'];
  }
});
