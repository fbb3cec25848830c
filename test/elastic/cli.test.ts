import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { cleanUp, ROOT, script } from '../launcher/support';

afterEach(cleanUp);

test.each(['auto', 'off'])('an elastic run ends when its ranks have ended, with encryption %s', async encryption => {
  const file = script(`
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    Communicator.connect().then(async ring => {
      await ring.barrier();
      console.log('rank', ring.rank, 'of', ring.worldSize);
      await ring.close();
    });`);
  const args = [path.join(ROOT, 'dist/cli.js'), 'run', '-n', '2', '--min', '1', '--no-prefix', file];
  const env = { ...process.env, GRADRING_ENCRYPTION: encryption };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 30_000 });
  expect(stdout.split('\n').sort()).toEqual(['', 'rank 0 of 2', 'rank 1 of 2']);
});
