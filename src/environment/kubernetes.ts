import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { attempt } from '../attempt';
import { KUBEFLOW } from './kubeflow';
import type { Scheduler } from './scheduler';
import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from './variables';

/**
 * The pods of an indexed Job. Kubernetes does not say how many there are: WORLD_SIZE must. If a JobSet makes several
 * Jobs, only labels tell which one a pod is in. The manifest must pass them on as GRADRING_JOB_INDEX and
 * GRADRING_JOB_COUNT.
 */
export const KUBERNETES: Scheduler = {
  ...{ name: 'Kubernetes', mark: 'JOB_COMPLETION_INDEX' },
  isThere: env => Boolean(env['JOB_COMPLETION_INDEX']) && !KUBEFLOW.isThere(env), // whose pods are those of such a Job
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
    const { rank, number } = worldSize === 1 ? { rank: 0, number: '0' } : podOf(env, worldSize);
    const hosts = attempt(() => readFileSync('/etc/hosts', 'utf8')) ?? '';
    const masterAddr = firstPod(hostname().split('.')[0]!, number, hosts);
    return { rank, worldSize, localRank: 0, localSize: 1, masterAddr, runId: '' };
  },
};

/** The rank of a pod, and how its name ends: with its index, in a JobSet of several Jobs after that of its Job. */
function podOf(env: NodeJS.ProcessEnv, worldSize: number): { rank: number; number: string } {
  const isJobSet = Boolean(env['GRADRING_JOB_INDEX'] || env['GRADRING_JOB_COUNT']);
  const jobs = isJobSet ? readInteger(env, 'GRADRING_JOB_COUNT', 1, worldSize) : 1;
  if (worldSize % jobs > 0) {
    throw wrongEnvironment(
      `WORLD_SIZE is ${worldSize}, but GRADRING_JOB_COUNT is ${jobs}: WORLD_SIZE is the number of pods of all Jobs together.`,
    );
  }
  const pods = worldSize / jobs;
  const index = readInteger(env, 'JOB_COMPLETION_INDEX', 0, pods - 1);
  if (!isJobSet) return { rank: index, number: String(index) };
  const job = readInteger(env, 'GRADRING_JOB_INDEX', 0, jobs - 1);
  return { rank: job * pods + index, number: `${job}-${index}` };
}

/**
 * The full name of pod 0, made from that of this pod, which begins with the name of its Job and its number. /etc/hosts
 * has the full name if the pod template names a headless service as its `subdomain`. (A JobSet does so by itself.)
 */
export function firstPod(own: string, number: string, hosts: string): string | undefined {
  const end = `-${number}`;
  if (!own.endsWith(end)) return undefined;
  const full = hosts.split(/\s+/).find(name => name.startsWith(`${own}.`));
  const first = end.replace(/\d+/g, '0');
  return full === undefined ? undefined : `${own.slice(0, -end.length)}${first}${full.slice(own.length)}`;
}
