// A rank of a run: trains as the plan says, reports each step and its end, and does to itself what the plan wants.
import { spawn } from 'node:child_process';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GradringError } from '../../src/errors';
import type { Communicator } from '../../src/communicator/communicator';
import { FAULT_KINDS } from './fault-kinds';
import { leave } from './leaving';
import { DescriptorWatch, openDescriptors } from './open-descriptors';
import type { Fault, Plan } from './plan';
import { report } from './rank-report';
import type { Workload } from './workload';

const FAILED = 7;

const folder = process.env.CHAOS_FOLDER!;
const plan = JSON.parse(readFileSync(path.join(folder, 'plan.json'), 'utf8')) as Plan;
const rank = Number(process.env.RANK);

/** Each loads what it needs when it is opened: TensorFlow.js takes longer to load than a run of `exchange`. */
const WORKLOADS: Record<Plan['workload'], () => Promise<Workload>> = {
  exchange: async () => (await import('./exchange-workload')).ExchangeWorkload.open(plan),
  model: async () => (await import('./model-workload')).ModelWorkload.open(plan),
  elastic: async () => (await import('./elastic-workload')).ElasticWorkload.open(plan),
};

const BUG = rank === 1 ? process.env.CHAOS_PLANT : undefined;

let ring: Communicator | undefined;

async function main(): Promise<void> {
  const own = plan.faults.filter(({ kind, ranks }) => FAULT_KINDS[kind].byRank && ranks.includes(rank));
  for (const fault of own) if ('startMs' in fault.at) setTimeout(() => suffer(fault), fault.at.startMs);
  const workload = await WORKLOADS[plan.workload]();
  ({ ring } = workload);
  report({ formed: true });
  let descriptors = NaN;
  const watch = new DescriptorWatch();
  for (let step = workload.firstStep ?? 0; step < plan.steps; step++) {
    for (const fault of own) {
      if ('step' in fault.at && fault.at.step === step) setTimeout(() => suffer(fault), fault.at.afterMs);
    }
    const paceMs = ((step * 7 + rank * 13) % 5) * 0.25 * plan.paceMs;
    await sleep(paceMs); // even of 0, for timers are to have their turn
    if (step === 5) plant(workload);
    report({ step, hash: await workload.step(step) });
    await workload.afterStep?.(step);
    if (step === 1) descriptors = openDescriptors();
    if (ring.isElastic) watch.look(ring);
    if (BUG === 'open files' && ring.generation > 0) openSync('/dev/null', 'r');
  }
  report({ done: true, moreDescriptors: openDescriptors() - descriptors });
}

function suffer({ kind, forMs }: Fault): void {
  report({ suffers: kind });
  if (kind === 'exit 0') process.exit(0);
  if (kind === 'exit 3') process.exit(3);
  if (kind === 'throw') throw new Error('A planned error.');
  for (const until = Date.now() + forMs; Date.now() < until;);
}

/** A bug of rank 1's, for the tests of the harness. */
function plant(workload: Workload): unknown {
  switch (BUG) {
    case 'other weights':
      return workload.spoil();
    case 'orphan':
      return spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], {
        detached: true,
        stdio: 'ignore',
      }).unref();
    case 'no code':
      throw new TypeError('a planted bug');
    case 'file':
      return writeFileSync(path.join(tmpdir(), 'left-behind'), '');
    default:
      return undefined;
  }
}

async function end(): Promise<void> {
  if (BUG === 'hang') return void setInterval(() => {}, 1_000);
  if (BUG === 'clings') await untilNeighbourHasLeft();
  const hasFailed = process.exitCode === FAILED;
  if (BUG === 'forgets') Object.assign(ring!, { barrier: async () => {}, barrierSync() {} });
  await leave({ ...plan, way: plan.leaves[rank]!, ring, hasFailed, folder });
}

/** The right one. */
async function untilNeighbourHasLeft(): Promise<void> {
  const file = path.join(folder, `rank-${(rank + 1) % plan.ranks}.jsonl`);
  while (!readFileSync(file, 'utf8').includes('"left"')) await sleep(20);
}

void main()
  .catch((error: GradringError | Error) => {
    const { code, rank: named, details, message, stack } = error as GradringError;
    const blamed = BUG === 'wrong blame' ? 99 : BUG === 'other end' ? named! + 1 : named;
    report({
      error: { code, blamed, address: details?.address, message, stack: code === undefined ? stack : undefined },
    });
    if (BUG === 'ahead') for (let step = 0; step < plan.steps; step++) report({ step });
    process.exitCode = FAILED;
  })
  .then(end);
