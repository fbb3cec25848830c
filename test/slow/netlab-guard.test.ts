import { existsSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isRunning, SAY_READY, script, temporaryFolder, waitUntil } from '../launcher/support';
import { finished, netlab, netlabWith, ownLab, partsOf, removeLabs } from './support/netlab';
import { describeWith } from './support/programs';

afterEach(removeLabs);

describeWith(['ip'], 'the network lab, killed by SIGKILL,', () => {
  test('leaves neither processes nor a lab in the middle of `with`', async () => {
    const lab = ownLab('l');
    const wait = script(`
      const { spawn } = require('node:child_process');
      const child = spawn('sleep', ['600'], { detached: true }); // in no group of the rank
      child.on('spawn', () => { console.log('child ' + child.pid + '.'); ${SAY_READY} });
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});`);
    const program = netlab('with', '3', '--name', lab, '--', process.execPath, wait);
    const pids = await program.readyRanks(3);
    await waitUntil('the children to be told', () => program.stdout.match(/child \d+\./g)?.length === 3);
    for (const [, pid] of program.stdout.matchAll(/child (\d+)\./g)) pids.push(Number(pid));
    expect(pids.filter(isRunning)).toEqual(pids);
    expect(partsOf(lab)).toHaveLength(3 + 1 + 3);
    program.child.kill('SIGKILL');
    await waitUntil('the lab to be gone', () => partsOf(lab).length === 0);
    expect(pids.filter(isRunning)).toEqual([]);
  });

  // A part is the bridge, a namespace or a link: the lab of 8 that is being made has 17 of them in the end.
  test.each([1, 2, 8, 15, 17])('leaves nothing of `up` once %d parts are there', async count => {
    const lab = ownLab('m');
    const program = netlab('up', '8', '--name', lab);
    while (partsOf(lab).length < count) await new Promise(setImmediate);
    program.child.kill('SIGKILL');
    await program.exited;
    await waitUntil('the lab to be gone', () => partsOf(lab).length === 0);
    await finished('down', '--name', lab); // waits for the lock of a process that still makes or removes it
    expect(partsOf(lab)).toEqual([]);
  });

  test('leaves nothing if a tool that it started goes on making the lab', async () => {
    const lab = ownLab('n');
    const folder = temporaryFolder();
    const slow = `#!/bin/sh
      [ "$1" = -batch ] && touch ${folder}/started && sleep 1
      PATH="\${PATH#*:}" ip "$@" && touch ${folder}/ended`;
    writeFileSync(path.join(folder, 'ip'), slow, { mode: 0o755 });
    const program = netlabWith({ PATH: `${folder}:${process.env['PATH']}` }, 'up', '2', '--name', lab);
    await waitUntil('the tool to start', () => existsSync(path.join(folder, 'started')));
    rmSync(path.join(folder, 'ended'), { force: true }); // of an earlier command
    program.child.kill('SIGKILL');
    await waitUntil('the tool to end', () => existsSync(path.join(folder, 'ended')));
    await waitUntil('the lab to be gone', () => partsOf(lab).length === 0);
  });
});
