import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { describeWhere, needs } from '../support/test-where';

const DIST = path.join(__dirname, '../../dist');

/** A program in a process that may have so many KiB of addresses. */
function runWithin(kibibytes: number | 'unlimited', program: string, nodeArgs: readonly string[] = []) {
  const node = [process.execPath, ...nodeArgs, '-e', program];
  return spawnSync('sh', ['-c', `ulimit -v ${kibibytes} && exec "$0" "$@"`, ...node], { encoding: 'utf8' });
}

const LESS = ['--disable-wasm-trap-handler'];
const TRAINING = `
  const { connect, loadBackend } = require(${JSON.stringify(DIST)});
  (async () => {
    const { tf } = await loadBackend({ backend: 'cpu' });
    const ring = await connect();
    const w = tf.variable(tf.zeros([10]), true, 'w');
    ring.wrap(tf.train.sgd(0.1)).minimize(() => w.sum());
    await ring.close();
    console.log('trained');
  })().catch(({ code, message }) => console.log(code + ' ' + message));`;

// What V8 reserves depends on the version of Node; these limits suit all of them.
describeWhere(needs.linux)('with a limit on the address space', () => {
  test('a training that has no room for its model names the limit, and what to do', () => {
    const { stdout } = runWithin(17_000_000, TRAINING);
    const numbers = stdout.match(/(28|34) GiB of addresses, with the backend wasm (36|44) GiB/)?.[0];
    expect(stdout).toBe(
      `ERR_OUT_OF_MEMORY There is no room for the 262336 bytes of a model's gradients and their state. This process may have only 16.2 GiB of addresses (ulimit -v). A rank reserves about ${numbers}, and uses little of them. Raise the limit (\`ulimit -v unlimited\`; h_vmem of Grid Engine), or set NODE_OPTIONS=${LESS[0]}: Node then reserves less, and WebAssembly is a little slower.\n`,
    );
  });

  test('a training that has no room for its compressor names the limit, too', () => {
    expect(runWithin(24_000_000, TRAINING).stdout).toMatch(
      /^ERR_OUT_OF_MEMORY There is no room for the largest tensor that is compressed\. This process may have only 22\.9 GiB/,
    );
  });

  test('the advice works, and is not given where it was taken', () => {
    expect(runWithin(13_000_000, TRAINING, LESS).stdout).toBe('trained\n');
    expect(runWithin(5_800_000, TRAINING, LESS).stdout).toBe(
      "ERR_OUT_OF_MEMORY There is no room for the communicator's thread. This process may have only 5.5 GiB of addresses (ulimit -v). A rank reserves about 8 GiB of addresses, with the backend wasm 12 GiB, and uses little of them. Raise the limit (`ulimit -v unlimited`; h_vmem of Grid Engine).\n",
    );
  });

  test('the heap that cannot grow names the limit, and not its own', () => {
    const heap = JSON.stringify(path.join(DIST, 'memory/shared-heap.js'));
    const program = `
      const { SharedHeap } = require(${heap});
      try { new SharedHeap().allocate(2 ** 31) } catch ({ message }) { console.log(message) }`;
    expect(runWithin(3_000_000, program, LESS).stdout).toMatch(
      /^There is no room for 2147483648 more bytes: the communicator's memory holds 64 bytes, and the system gives no more\. This process may have only 2\.9 GiB of addresses /,
    );
  });

  test.each([
    ['unlimited', [], /^undefined/],
    [17_000_000, [], /^problem limited to 16\.2 GiB \(ulimit -v\)\. A rank .*, or set NODE_OPTIONS=/],
    [36_700_000, [], /^warning limited to 35 GiB \(ulimit -v\)\. A rank .*, or set NODE_OPTIONS=/],
    [50_000_000, [], /^ok limited to 47\.7 GiB \(ulimit -v\), enough for a rank$/m],
    [13_000_000, LESS, /^ok limited to 12\.4 GiB \(ulimit -v\), enough for a rank$/m],
    [9_000_000, LESS, /^warning limited to 8\.6 GiB \(ulimit -v\)\. A rank .* Grid Engine\)$/m],
  ] as const)('the doctor says it: %s KiB, node %s', (limit, nodeArgs, expected) => {
    const limits = JSON.stringify(path.join(DIST, 'doctor/limits.js'));
    const program = `
      const { verdict, words } = require(${limits}).addressSpaceFinding() ?? {};
      console.log(verdict + ' ' + words);`;
    expect(runWithin(limit, program, nodeArgs).stdout).toMatch(expected);
  });
});
