import { existsSync } from 'node:fs';
import { launch } from '../../src/launcher/launch';
import { Capture, cleanUp, script } from './support';

afterEach(cleanUp);

test('ranks make their sockets in a folder of the run, which is gone after it, whatever a killed rank leaves there', async () => {
  const stdout = new Capture();
  const source = `
    const fs = require('node:fs');
    const folder = process.env.GRADRING_SOCKET_FOLDER;
    console.log(folder, (fs.statSync(folder).mode & 0o777).toString(8));
    if (process.env.RANK === '1') {
      fs.mkdirSync(folder + '/gradring-left-behind');
      process.kill(process.pid, 'SIGKILL');
    }
    setInterval(() => undefined, 1000);`;
  const options = { ranks: 2, failureGraceMs: 0, stdout, stderr: new Capture(), prefix: false };
  expect(await launch({ ...options, script: script(source) })).toMatchObject({ rootCause: { signal: 'SIGKILL' } });
  const [folder, mode] = stdout.lines[0]!.split(' ');
  expect(mode).toBe('700');
  expect(existsSync(folder!)).toBe(false);
});
