import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import type { LaunchResult } from '../../src/launcher/conclude';
import { launch } from '../../src/launcher/launch';
import type { LaunchOptions } from '../../src/launcher/launch-options';
import { needs, testWhere } from '../support/test-where';
import { Capture, cleanUp, isRunning, ROOT, script, temporaryFolder, UNCONNECTED, waitUntil } from './support';

afterEach(cleanUp);

/** Launches a script given by its source, and keeps what it writes. */
async function run(
  source: string,
  options: Partial<LaunchOptions> = {},
): Promise<LaunchResult & { stdout: Capture; stderr: Capture }> {
  const stdout = new Capture();
  const stderr = new Capture();
  const result = await launch({ ranks: 1, script: script(source), stdout, stderr, ...options });
  return { ...result, stdout, stderr };
}

const SHOW_ENVIRONMENT = `
  const { RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GRADRING_RUN_ID, EXTRA } = process.env;
  console.log(JSON.stringify({ RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GRADRING_RUN_ID, EXTRA }));`;

async function environments(options: Partial<LaunchOptions>): Promise<Record<string, string>[]> {
  const { stdout } = await run(SHOW_ENVIRONMENT, { prefix: false, ...options });
  return stdout.lines
    .map(line => JSON.parse(line) as Record<string, string>)
    .sort((a, b) => Number(a['RANK']) - Number(b['RANK']));
}

describe('environment', () => {
  test('each rank is told its place, and all the same meeting point and run', async () => {
    const ranks = await environments({ ranks: 3, env: { EXTRA: 'yes' } });
    const [{ MASTER_PORT, GRADRING_RUN_ID }] = ranks as [Record<string, string>];
    expect(Number(MASTER_PORT)).toBeGreaterThan(0);
    expect(GRADRING_RUN_ID).toMatch(/^[0-9a-f]{32}$/);
    const common = { WORLD_SIZE: '3', MASTER_ADDR: '127.0.0.1', MASTER_PORT, GRADRING_RUN_ID, EXTRA: 'yes' };
    expect(ranks).toEqual(['0', '1', '2'].map(rank => ({ RANK: rank, LOCAL_RANK: rank, ...common })));

    const [another] = await environments({});
    expect(another!['GRADRING_RUN_ID']).not.toBe(GRADRING_RUN_ID);
  });

  test('nodes count their ranks on, and agree on port and run without talking', async () => {
    const nodes = { ranks: 2, nodes: 3, masterAddr: 'localhost', masterPort: 41_234 };
    const first = await environments({ ...nodes, nodeRank: 1 });
    const second = await environments({ ...nodes, nodeRank: 2 });
    expect(first.map(env => [env['RANK'], env['LOCAL_RANK'], env['WORLD_SIZE']])).toEqual([
      ['2', '0', '6'],
      ['3', '1', '6'],
    ]);
    expect(second.map(env => env['RANK'])).toEqual(['4', '5']);
    expect(second[0]!['GRADRING_RUN_ID']).toBe(first[0]!['GRADRING_RUN_ID']);
    expect(second[0]).toMatchObject({ MASTER_ADDR: 'localhost', MASTER_PORT: '41234' });
  });

  test('a run id that is given is kept', async () => {
    const [only] = await environments({ env: { GRADRING_RUN_ID: 'mine' } });
    expect(only!['GRADRING_RUN_ID']).toBe('mine');
  });

  test('arguments for the script and for Node arrive untouched', async () => {
    const args = ['--json', 'a b', '', '-n', '007', '--', '*'];
    const source = 'console.log(JSON.stringify([process.argv.slice(2), process.title]))';
    const { stdout } = await run(source, { args, nodeArgs: ['--title=titled'], prefix: false });
    expect(JSON.parse(stdout.text)).toEqual([args, 'titled']);
  });

  test('ranks that have less than two cores collect garbage in one thread, unless the user says otherwise', async () => {
    const flags = async (ranks: number, nodeArgs: string[] = []) => {
      const source = "const { execArgv } = process; console.log(execArgv.filter(each => each.endsWith('-threaded-gc')).join())"; // prettier-ignore
      return [...new Set((await run(source, { ranks, nodeArgs, prefix: false })).stdout.lines)];
    };
    const crowded = availableParallelism() < 4 ? '--single-threaded-gc' : '';
    expect(await flags(2)).toEqual([crowded]);
    expect(await flags(1)).toEqual(['']);
    const own = '--no-single-threaded-gc';
    expect(await flags(2, [own])).toEqual([[crowded, own].filter(each => each !== '').join()]);
  });

  test('ranks may be ES modules, and fork and start threads of their own', async () => {
    const file = script(
      `import { fork } from 'node:child_process';
       import { Worker } from 'node:worker_threads';
       if (process.argv[2] === 'forked') process.send('hello from the fork', () => process.disconnect());
       else {
         const child = fork(import.meta.filename ?? new URL(import.meta.url).pathname, ['forked']);
         child.on('message', message => console.log(message));
         child.on('exit', code => {
           console.log('fork exit', code);
           new Worker('console.log("hello from the thread")', { eval: true });
         });
       }`,
      'rank.mjs',
    );
    const { stdout, exitCode } = await run('', { script: file, prefix: false });
    expect(stdout.lines).toEqual(['hello from the fork', 'fork exit 0', 'hello from the thread']);
    expect(exitCode).toBe(0);
  });
});

describe('output', () => {
  test('lines carry their rank, go to their own stream, and stay whole', async () => {
    const source = `
      const rank = process.env.RANK;
      const parts = ['some', 'thing ', 'of ' + rank];
      const next = round => {
        if (round === 20) return process.stdout.write('no end ' + rank);
        parts.forEach((part, i) => setTimeout(() => process.stdout.write(part), i));
        setTimeout(() => { process.stdout.write('\\n'); console.error('error of ' + rank); next(round + 1); }, 4);
      };
      next(0);`;
    const { stdout, stderr } = await run(source, { ranks: 2 });
    for (const rank of [0, 1]) {
      const own = stdout.lines.filter(line => line.startsWith(`[${rank}] `));
      expect(own).toEqual([...Array(20).fill(`[${rank}] something of ${rank}`), `[${rank}] no end ${rank}`]);
      expect(stderr.lines.filter(line => line === `[${rank}] error of ${rank}`)).toHaveLength(20);
    }
    expect(stdout.lines).toHaveLength(42);
    expect(stderr.lines.slice(40)).toEqual([UNCONNECTED]);
  });

  test('characters of several bytes survive any cut', async () => {
    const source = `
      const { writeSync } = require('node:fs');
      const wait = ms => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      for (const byte of Buffer.from('zwölf 🥊\\n')) { writeSync(1, Buffer.of(byte)); wait(5); }`;
    const { stdout } = await run(source);
    expect(stdout.text).toBe('[0] zwölf 🥊\n');
  });

  test('a slow reader slows the ranks down; nothing is lost and little is held', async () => {
    let received = 0;
    let mostHeld = 0;
    const slow: Writable = new Writable({
      write(chunk: Buffer, _encoding, callback) {
        received += chunk.length;
        mostHeld = Math.max(mostHeld, slow.writableLength);
        setTimeout(callback, 2);
      },
    });
    const lineBytes = 1_000;
    const source = `for (let i = 0; i < 3000; i++) console.log('x'.repeat(${lineBytes - 1}));`;
    const { exitCode } = await run(source, { ranks: 2, prefix: false, stdout: slow });
    expect(exitCode).toBe(0);
    expect(received).toBe(2 * 3000 * lineBytes);
    expect(mostHeld).toBeLessThan(1_000_000);
  });

  test('an output that was destroyed without an error does not hold up the ranks', async () => {
    const stdout = new Capture();
    stdout.destroy();
    const file = script(`for (let i = 0; i < 1000; i++) console.log('x'.repeat(1000))`);
    expect((await launch({ ranks: 1, script: file, stdout, stderr: new Capture() })).exitCode).toBe(0);
  });

  test('an output that breaks does not end the ranks', async () => {
    const broken = new Writable({ write: (_chunk, _encoding, callback) => callback(new Error('EPIPE')) });
    const outputDir = temporaryFolder();
    const source = `let i = 0; const timer = setInterval(() => { console.log(i); if (++i === 20) clearInterval(timer); }, 5);`;
    const { exitCode } = await run(source, { stdout: broken, outputDir });
    expect(exitCode).toBe(0);
    expect(readFileSync(path.join(outputDir, 'rank-0.log'), 'utf8').split('\n')).toHaveLength(21);
  });

  describe('on a terminal', () => {
    const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
    beforeEach(() => {
      process.env['TERM'] = 'xterm-256color';
      delete process.env['NO_COLOR'];
      delete process.env['FORCE_COLOR'];
    });
    afterEach(() => {
      for (const [name, value] of Object.entries({ NO_COLOR, FORCE_COLOR, TERM })) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    });

    const terminal = (): Capture => Object.assign(new Capture(), { isTTY: true, getColorDepth: () => 8 });
    const source = `console.log('forced: ' + process.env.FORCE_COLOR)`;

    test('each rank has a colour, and may use colours itself', async () => {
      const stdout = terminal();
      await run(source, { ranks: 2, stdout });
      expect(stdout.lines.sort()).toEqual(['\x1b[33m[1]\x1b[39m forced: 2', '\x1b[36m[0]\x1b[39m forced: 2']);
    });

    test('NO_COLOR is heeded', async () => {
      process.env['NO_COLOR'] = '1';
      const stdout = terminal();
      await run(source, { stdout });
      expect(stdout.lines).toEqual(['[0] forced: undefined']);
    });

    test('a pipe gets no colours', async () => {
      const { stdout } = await run(source);
      expect(stdout.lines).toEqual(['[0] forced: undefined']);
    });
  });

  test('outputDir keeps both streams of each rank, without prefix and colours', async () => {
    const outputDir = path.join(temporaryFolder(), 'deep/er');
    const source = `console.log('\\x1b[32mout ' + process.env.RANK + '\\x1b[39m'); console.error('err ' + process.env.RANK);`;
    const { stdout } = await run(source, { ranks: 2, outputDir });
    expect(stdout.lines.sort()).toEqual(['[0] \x1b[32mout 0\x1b[39m', '[1] \x1b[32mout 1\x1b[39m']);
    for (const rank of [0, 1]) {
      const log = readFileSync(path.join(outputDir, `rank-${rank}.log`), 'utf8');
      expect(log.split('\n').sort()).toEqual(['', `err ${rank}`, `out ${rank}`]);
    }
  });

  test('a log is never written through a link', async () => {
    const [outputDir, other] = [temporaryFolder(), path.join(temporaryFolder(), 'other.log')];
    writeFileSync(other, 'of another run');
    symlinkSync(other, path.join(outputDir, 'rank-0.log'));
    await run(`console.log('mine')`, { outputDir });
    expect(readFileSync(other, 'utf8')).toBe('of another run');
    expect(readFileSync(path.join(outputDir, 'rank-0.log'), 'utf8')).toBe('mine\n');
  });

  test('relative paths, and the folder of the ranks, are those of the call', async () => {
    const [start, elsewhere] = [temporaryFolder(), temporaryFolder()];
    writeFileSync(path.join(start, 'token'), 'ab'.repeat(32), { mode: 0o600 });
    const before = process.cwd();
    const source = `console.log(process.cwd(), process.env.GRADRING_TIMELINE, process.env.GRADRING_RUN_TOKEN);`;
    const file = script(source);
    try {
      process.chdir(start);
      const running = run('', {
        script: file,
        outputDir: 'logs',
        tokenFile: 'token',
        env: { GRADRING_TIMELINE: 'trace' },
      });
      process.chdir(elsewhere);
      await running;
    } finally {
      process.chdir(before);
    }
    const log = readFileSync(path.join(start, 'logs/rank-0.log'), 'utf8');
    expect(log).toBe(`${start} ${path.join(start, 'trace')} ${'ab'.repeat(32)}\n`);
  });

  test('a process left behind that holds the output open does not hold up the end', async () => {
    const source = `
      const { spawn } = require('node:child_process');
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit', detached: true });
      child.unref();
      console.log(child.pid);`;
    const { stdout, exitCode } = await run(source, { prefix: false });
    const pid = Number(stdout.text);
    expect(exitCode).toBe(0);
    expect(isRunning(pid)).toBe(true); // Else this shows nothing.
    process.kill(pid, 'SIGKILL');
  });
});

describe('ends', () => {
  test('all ranks succeed, some of them early', async () => {
    const source = `if (process.env.RANK === '1') setTimeout(() => console.log('late'), 500);`;
    const { exitCode, rootCause, ranks, stdout, stderr } = await run(source, { ranks: 2 });
    expect(exitCode).toBe(0);
    expect(rootCause).toBeUndefined();
    expect(ranks.map(({ rank, exitCode, signal }) => [rank, exitCode, signal])).toEqual([
      [0, 0, null],
      [1, 0, null],
    ]);
    expect(stdout.text).toBe('[1] late\n');
    expect(stderr.lines).toEqual([UNCONNECTED]);
  });

  test('the first failure is the root cause, with its code and last words', async () => {
    const source = `
      const { existsSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
      const file = ${JSON.stringify(temporaryFolder())} + '/pid';
      if (process.env.RANK === '2') {
        writeFileSync(file + '.new', String(process.pid));
        renameSync(file + '.new', file);
        for (let i = 0; i < 30; i++) console.error('word ' + i);
        process.exitCode = 7;
      } else setInterval(() => {
        // As a peer notices the loss a little later, and fails in turn: a pid is gone when the launcher has seen its
        // end.
        if (!existsSync(file)) return;
        try { process.kill(Number(readFileSync(file)), 0); } catch { console.error('peer lost'); process.exit(1); }
      }, 10);`;
    const { exitCode, rootCause, ranks, stderr } = await run(source, { ranks: 3, failureGraceMs: 30_000 });

    expect(exitCode).toBe(7);
    expect(rootCause).toMatchObject({ rank: 2, exitCode: 7, signal: null, pid: ranks[2]!.pid });
    expect(rootCause!.afterMs).toBeGreaterThan(0);
    expect(ranks.map(({ exitCode }) => exitCode)).toEqual([1, 1, 7]);
    const summary = stderr.lines.findIndex(line => line.startsWith('gradring: '));
    expect(stderr.lines[summary]).toMatch(
      /^gradring: rank 2 \(pid \d+\) failed with exit code 7 after \d+\.\d s; root cause\. The other ranks: rank 0 exit 1, rank 1 exit 1\.$/,
    );
    expect(stderr.lines.slice(summary + 2)).toEqual(Array.from({ length: 10 }, (_, i) => `    word ${i + 20}`));
  });

  test('ranks that go on after a failure get SIGTERM, then SIGKILL', async () => {
    const source = `
      const { existsSync, writeFileSync } = require('node:fs');
      const flag = ${JSON.stringify(temporaryFolder())} + '/ready-';
      if (process.env.RANK === '1') process.on('SIGTERM', () => console.log('ignored'));
      writeFileSync(flag + process.env.RANK, '');
      setInterval(() => {
        if (process.env.RANK === '2' && existsSync(flag + 0) && existsSync(flag + 1)) process.exit(3);
      }, 10);`;
    const { exitCode, rootCause, ranks, stdout } = await run(source, { ranks: 3, failureGraceMs: 100, graceMs: 2_000 });
    expect(exitCode).toBe(3);
    expect(rootCause!.rank).toBe(2);
    expect(ranks.map(({ signal }) => signal)).toEqual(['SIGTERM', 'SIGKILL', null]);
    expect(stdout.text).toBe('[1] ignored\n');
  });

  test('a rank that is killed counts as 128 + the signal', async () => {
    const source = `if (process.env.RANK === '1') process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 1000);`;
    const { exitCode, rootCause, stderr } = await run(source, { ranks: 2, failureGraceMs: 0 });
    expect(exitCode).toBe(137);
    expect(rootCause).toMatchObject({ rank: 1, exitCode: null, signal: 'SIGKILL' });
    expect(stderr.text).toMatch(
      /rank 1 \(pid \d+\) was killed by SIGKILL after .* root cause\. .* rank 0 SIGTERM\.\n$/,
    );
  });

  test('what a rank started in its group ends with it', async () => {
    const source = `
      const { spawn } = require('node:child_process');
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
      child.unref();
      console.log(child.pid);`;
    const { stdout } = await run(source, { prefix: false });
    await waitUntil('the child to end', () => !isRunning(Number(stdout.text)));
  });
});

describe('errors before any rank runs', () => {
  const failure = async (options: Partial<LaunchOptions>): Promise<{ code: string; message: string }> => {
    const marker = path.join(temporaryFolder(), 'marker');
    const source = `require('node:fs').writeFileSync(${JSON.stringify(marker)}, '')`;
    const error = await run(source, options).then(
      () => ({ code: 'none', message: '' }),
      (error: { code: string; message: string }) => error,
    );
    expect(existsSync(marker)).toBe(error.code === 'none');
    return error;
  };

  test.each<[Partial<LaunchOptions>, string]>([
    [{ ranks: 0 }, 'ranks is 0; it must be a whole number from 1 to 65535.'],
    [{ ranks: -1 }, 'ranks is -1'],
    [{ ranks: 1.5 }, 'ranks is 1.5'],
    [{ ranks: NaN }, 'ranks is NaN'],
    [{ nodes: 0 }, 'nodes is 0'],
    [{ nodes: 2, nodeRank: 2, masterAddr: 'localhost' }, 'nodeRank is 2; it must be a whole number from 0 to 1'],
    [{ nodes: 2 }, 'nodes is 2, so masterAddr is needed'],
    [{ nodes: 65_535, ranks: 2, masterAddr: 'localhost' }, '131070 ranks'],
    [{ nodeRank: -1 }, 'nodeRank is -1; it must be 0, because nodes is 1.'],
    [{ masterPort: 0 }, 'masterPort is 0'],
    [{ masterPort: 65_536 }, 'masterPort is 65536'],
    [{ graceMs: -1 }, 'graceMs is -1'],
    [{ graceMs: Infinity }, 'graceMs is Infinity'],
    [{ failureGraceMs: 0.5 }, 'failureGraceMs is 0.5'],
    [{ tokenFile: '/nowhere' }, "tokenFile is '/nowhere'"],
  ])('%o: a program is told its own names of the options', async (options, words) => {
    const error = await failure(options);
    expect(error.code).toBe('ERR_INVALID_ARGUMENT');
    expect(error.message).toContain(words);
  });

  test('a script that is not there, or a directory', async () => {
    const folder = temporaryFolder();
    await expect(run('', { script: path.join(folder, 'no.js') })).rejects.toMatchObject({
      code: 'ERR_SCRIPT_NOT_FOUND',
      message: `${folder}/no.js does not exist.`,
    });
    await expect(run('', { script: folder })).rejects.toMatchObject({
      code: 'ERR_SCRIPT_NOT_FOUND',
      message: `${folder} is a directory, not a script.`,
    });
  });

  test('a log that cannot be written', async () => {
    const file = script('');
    await expect(run('', { outputDir: path.join(file, 'logs') })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringContaining(`${file}/logs/rank-0.log cannot be written`) as string,
    });
  });

  test('the log of a later rank that cannot be written, which leaves no listeners', async () => {
    const outputDir = temporaryFolder();
    mkdirSync(path.join(outputDir, 'rank-1.log'));
    const [stdout, stderr] = [new Capture(), new Capture()];
    await expect(run('', { ranks: 2, outputDir, stdout, stderr })).rejects.toThrow('rank-1.log cannot be written');
    expect([stdout, stderr].map(stream => stream.listenerCount('error'))).toEqual([0, 0]);
  });

  test('a master port that is in use, on the node that would bind it', async () => {
    const server = createServer();
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    const { port: masterPort } = server.address() as AddressInfo;
    const none = { code: 'none' };
    try {
      await expect(run('', { masterPort })).rejects.toMatchObject({
        code: 'ERR_ADDRESS_IN_USE',
        message: expect.stringContaining(`Port ${masterPort} at 127.0.0.1 is in use`) as string,
      });
      expect(await failure({ masterPort, nodes: 2, nodeRank: 1, masterAddr: '127.0.0.1' })).toMatchObject(none);
    } finally {
      await new Promise(resolve => server.close(resolve));
    }
    expect(await failure({ masterPort })).toMatchObject(none);
  });

  test('ranks that the system cannot start, whether it says so at once or later', async () => {
    // One environment string may hold 128 KiB on Linux.
    await expect(run('', { ranks: 2, env: { BIG: 'x'.repeat(3_000_000) } })).rejects.toMatchObject({
      code: 'ERR_RANK_FAILED',
      message: expect.stringMatching(/^Rank 0 could not be started: .*E2BIG/) as string,
      details: { rank: 0 },
    });
    const { execPath } = process;
    process.execPath = '/nowhere/node';
    try {
      await expect(run('', { ranks: 2 })).rejects.toMatchObject({
        code: 'ERR_RANK_FAILED',
        message: expect.stringMatching(/^Rank 0 could not be started: .*ENOENT/) as string,
      });
    } finally {
      process.execPath = execPath;
    }
  });

  testWhere(needs.linux)('ranks for which the launcher has no descriptors left: the message names the limit', () => {
    const command = `ulimit -n 64; exec "$0" ${path.join(ROOT, 'dist/cli.js')} run -n 40 "$1"`;
    const { status, stderr } = spawnSync('bash', ['-c', command, process.execPath, script('')], { encoding: 'utf8' });
    expect(stderr).toMatch(
      /^gradring: ERR_RANK_FAILED: Rank \d+ could not be started: .* The launcher has as many files and connections open as it may \(64\)\. .*ulimit -n/m,
    );
    expect(status).toBe(1);
  });
});
