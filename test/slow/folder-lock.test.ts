import { spawn } from 'node:child_process';
import path from 'node:path';
import { FolderLock } from '../../src/checkpoint/folder-lock';
import { localRanks } from '../checkpoint/support';
import { cleanUp, temporaryFolder, waitUntil } from '../launcher/support';
import { failureOf } from '../support/rings';
import { describeWith } from './support/programs';

beforeEach(() => void jest.spyOn(console, 'error').mockImplementation(() => undefined));
afterEach(() => jest.restoreAllMocks());
afterEach(cleanUp);

/** A process that cannot beat for six times as long counts as ended, so that must not happen on a slow machine. */
const BEAT_MS = 1_000;

describeWith(['unshare'], 'a run in a container, whose processes cannot be seen from outside', () => {
  test('keeps its folder while it runs, and not after a kill', async () => {
    const dir = temporaryFolder();
    const hold = () => new FolderLock(dir, '', BEAT_MS).hold(localRanks(1)[0]!, false);
    const source = `
      const { FolderLock } = require(${JSON.stringify(path.join(__dirname, '../../dist/checkpoint/folder-lock.js'))});
      const ring = { rank: 0, worldSize: 1, allGather: async bytes => [bytes] };
      setInterval(() => {}, 1000);
      new FolderLock(${JSON.stringify(dir)}, '', ${BEAT_MS}).hold(ring, false).then(() => console.log('has it', process.pid));`;
    const inside = ['--pid', '--fork', '--kill-child', '--mount-proc', process.execPath, '-e', source];
    const child = spawn('unshare', inside, { stdio: ['ignore', 'pipe', 'inherit'] });
    let stdout = '';
    child.stdout.on('data', (text: Buffer) => (stdout += text.toString()));
    const exited = new Promise(resolve => child.once('close', resolve));
    try {
      await waitUntil('it to have the lock', () => stdout === 'has it 1\n');
      expect(await failureOf(hold())).toMatchObject({ code: 'ERR_CHECKPOINT_IN_USE' });
    } finally {
      child.kill('SIGKILL');
      await exited;
    }
    await hold();
  });
});
