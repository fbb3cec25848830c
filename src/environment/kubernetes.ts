import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Scheduler } from './scheduler';
import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from './variables';

/** The pods of an indexed Job. Kubernetes does not say how many there are: WORLD_SIZE must. */
export const KUBERNETES: Scheduler = {
  ...{ name: 'Kubernetes', mark: 'JOB_COMPLETION_INDEX', isThere: env => Boolean(env['JOB_COMPLETION_INDEX']) },
  passing: variable => `env: [{ name: ${variable}, value: … }] in the pod template`,
  unknownMaster:
    'The name of pod 0 is not known: the pod template needs `subdomain`, the name of a headless Service (docs/kubernetes/job.yaml). With hostNetwork, set MASTER_ADDR.',
  isHomeless: true,
  placeOf(env) {
    if (!env['WORLD_SIZE']) {
      throw wrongEnvironment(
        `JOB_COMPLETION_INDEX is '${env['JOB_COMPLETION_INDEX']}', so this is a pod of an indexed Job, but WORLD_SIZE is not set. Add it to the pod template, with the number of completions; with 1, each pod trains alone.`,
      );
    }
    const worldSize = readInteger(env, 'WORLD_SIZE', 1, MAX_WORLD_SIZE);
    const rank = worldSize === 1 ? 0 : readInteger(env, 'JOB_COMPLETION_INDEX', 0, worldSize - 1);
    const masterAddr = firstPod(hostname().split('.')[0]!, rank, readHosts());
    return { rank, worldSize, localRank: 0, localSize: 1, masterAddr, runId: '' };
  },
};

/**
 * The name of pod 0. That of this pod is the Job's name and its index, and /etc/hosts has it with the name of the
 * headless service, if the pod template names one as its `subdomain`.
 */
export function firstPod(own: string, index: number, hosts: string): string | undefined {
  const end = `-${index}`;
  if (!own.endsWith(end)) return undefined;
  const full = hosts.split(/\s+/).find(name => name.startsWith(`${own}.`));
  return full === undefined ? undefined : `${own.slice(0, -end.length)}-0${full.slice(own.length)}`;
}

function readHosts(): string {
  try {
    return readFileSync('/etc/hosts', 'utf8');
  } catch {
    return '';
  }
}
