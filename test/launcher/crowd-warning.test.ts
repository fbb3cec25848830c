import os from 'node:os';
import { crowdWarning } from '../../src/launcher/host-resources';
import { launch, launchPlan } from '../../src/launcher/launch';
import { planLaunch } from '../../src/launcher/launch-options';
import { replaceSsh, RUN_HERE } from './fake-ssh';
import { Capture, cleanUp, script } from './support';

afterEach(async () => {
  jest.restoreAllMocks();
  await cleanUp();
});

test('a host that has far fewer cores than ranks is warned of', () => {
  expect(crowdWarning(999, 'this host', 2)).toBe(
    '999 ranks share the 2 cores of this host: they will be slow, and each needs memory for the whole model. As many ranks as cores are the fastest.',
  );
  expect(crowdWarning(5, 'b', 1)).toMatch('5 ranks share the 1 core of b');
  expect(crowdWarning(8, 'this host', 2)).toBeUndefined(); // to try something out
});

test('before the ranks start, here and on other hosts, and they run all the same', async () => {
  const [stdout, stderr] = [new Capture(), new Capture()];
  const file = script(`console.log('runs')`);
  const words = (host: string) => `gradring: 5 ranks share the 1 core of ${host}: they will be slow`;

  const cores = jest.spyOn(os, 'availableParallelism').mockReturnValue(1);
  await launch({ ranks: 5, script: file, stdout, stderr });
  expect(stderr.text).toMatch(words('this host'));
  cores.mockRestore();

  const preload = script(`require('node:os').availableParallelism = () => 1;`, 'one-core.js');
  replaceSsh(`export NODE_OPTIONS="--require ${preload}"; ${RUN_HERE}`);
  const plan = planLaunch({ script: file, hosts: [{ host: 'h', ranks: 5 }], stdout, stderr });
  await launchPlan(plan);
  expect(stderr.text).toMatch(words('h'));
  expect(stdout.lines).toHaveLength(10);
});
