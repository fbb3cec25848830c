import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const ROOT = path.join(__dirname, '../..');
const run = promisify(execFile);

let folder: string;

beforeAll(() => (folder = mkdtempSync(path.join(tmpdir(), 'gradring-link-'))));
afterAll(() => rmSync(folder, { recursive: true }));

/** A project that has installed gradring as it would be published; with a cache of its own. */
async function makeProject(): Promise<(command: string, ...args: string[]) => Promise<string>> {
  const project = path.join(folder, 'project');
  rmSync(project, { recursive: true, force: true });
  mkdirSync(project);
  writeFileSync(path.join(project, 'package.json'), '{ "private": true }');
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], {
    cwd: ROOT,
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  const inProject = async (command: string, ...args: string[]) => {
    const env = { ...process.env, XDG_CACHE_HOME: path.join(folder, 'cache') };
    return (await run(command, args, { cwd: project, env })).stdout;
  };
  await inProject('npm', 'install', path.join(folder, filename), '--no-audit', '--no-fund', '--omit=optional');
  return inProject;
}

/** The other one is linked by backends.test.ts. */
const NAME = 'tfjs-node';

test(`${NAME} runs on a TensorFlow that pip fetches, and trains; --undo takes it away`, async () => {
  const inProject = await makeProject();
  const link = (...args: string[]) =>
    inProject('npx', 'gradring', 'link-tensorflow', '--package', NAME, '--json', ...args);
  try {
    const linked = JSON.parse(await link());
    expect(linked).toMatchObject({ state: 'linked', proof: { device: 'CPU' } });
    expect(linked.proof.error).toBeLessThan(1e-3);
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    if (!/none can be fetched|npm cannot install|ENOTFOUND|EAI_AGAIN/.test(stderr)) throw error;
    console.warn(`Passed over: neither pip nor npm can fetch what it takes here. ${stderr}`);
    return;
  }
  expect(JSON.parse(await link('--check'))).toMatchObject({ state: 'linked', proof: { device: 'CPU' } });
  const program = `
    const { connect, loadBackend, dgc } = require('gradring');
    (async () => {
      const { tf, name } = await loadBackend();
      const ring = await connect();
      const model = tf.sequential({ layers: [tf.layers.dense({ inputShape: [4], units: 2 })] });
      model.compile({ optimizer: ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc() }), loss: 'meanSquaredError' });
      await model.fit(...ring.shard(tf.ones([16, 4]), tf.ones([16, 2])), { epochs: 2, verbose: 0, callbacks: ring.callbacks() });
      console.log(name, await ring.verifyReplicas(model));
      await ring.close();
    })();`;
  const script = path.join(folder, 'project/train.js');
  writeFileSync(script, program);
  const output = await inProject('npx', 'gradring', 'run', '-n', '2', script);
  expect(output.match(new RegExp(`${NAME} [0-9a-f]{64}`, 'g'))).toHaveLength(2);
  const { removed, kept } = JSON.parse(await link('--undo')) as { removed: string[]; kept?: string };
  expect(removed).toEqual([expect.stringMatching(new RegExp(`node_modules/@tensorflow/${NAME}$`))]);
  if (kept !== undefined) expect(existsSync(kept)).toBe(true); // undefined where Python has a TensorFlow
  await expect(link('--check')).rejects.toMatchObject({ code: 1 });
}, 600_000);
