// A rank of a run: trains as the plan says, tells of each step and of its end, and does itself what the plan wants it
// to.
const { spawn } = require('node:child_process');
const { openSync, readFileSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { FAULT_KINDS } = require('./fault-kinds');
const { leave } = require('./leaving');
const { DescriptorWatch, openDescriptors } = require('./open-descriptors');
const { report } = require('./rank-report');

const FAILED = 7;

const folder = process.env.GRADRING_CHAOS_FOLDER;
const plan = JSON.parse(readFileSync(path.join(folder, 'plan.json'), 'utf8'));
const rank = Number(process.env.RANK);
const { Workload } = require(`./${plan.workload}-workload`);

const BUG = rank === 1 ? process.env.GRADRING_CHAOS_PLANT : undefined;

let ring;

async function main() {
  const own = plan.faults.filter(({ kind, ranks }) => FAULT_KINDS[kind].byRank && ranks.includes(rank));
  for (const fault of own) if ('startMs' in fault.at) setTimeout(() => suffer(fault), fault.at.startMs);
  const workload = await Workload.open(plan);
  ring = workload.ring;
  report({ formed: true });
  let descriptors;
  const watch = new DescriptorWatch();
  for (let step = workload.firstStep ?? 0; step < plan.steps; step++) {
    for (const fault of own) if (fault.at.step === step) setTimeout(() => suffer(fault), fault.at.afterMs);
    const paceMs = ((step * 7 + rank * 13) % 5) * 0.25 * plan.paceMs;
    await sleep(paceMs); // even of 0, for timers are to have their turn
    if (step === 5) plant(workload);
    report({ step, hash: await workload.step(step) });
    await workload.afterStep?.(step);
    if (step === 1) descriptors = openDescriptors();
    if (ring.isElastic) watch.look(ring);
    if (BUG === 'open files' && ring.generation > 0) openSync('/dev/null');
  }
  report({ done: true, moreDescriptors: openDescriptors() - descriptors });
}

function suffer({ kind, forMs }) {
  report({ suffers: kind });
  if (kind === 'exit 0') process.exit(0);
  if (kind === 'exit 3') process.exit(3);
  if (kind === 'throw') throw new Error('A planned error.');
  for (const until = Date.now() + forMs; Date.now() < until;);
}

/** A bug of rank 1's, for the tests of the harness. */
function plant(workload) {
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
  }
}

async function end() {
  if (BUG === 'hang') return void setInterval(() => {}, 1_000);
  if (BUG === 'clings') await untilNeighbourHasLeft();
  const hasFailed = process.exitCode === FAILED;
  if (BUG === 'forgets') Object.assign(ring, { barrier: async () => {}, barrierSync() {} });
  await leave({ ...plan, way: plan.leaves[rank], ring, hasFailed, folder });
}

/** The right one. */
async function untilNeighbourHasLeft() {
  const file = path.join(folder, `rank-${(rank + 1) % plan.ranks}.jsonl`);
  while (!readFileSync(file, 'utf8').includes('"left"')) await sleep(20);
}

main()
  .catch(({ code, rank: named, details, message, stack }) => {
    const blamed = { 'wrong blame': 99, 'other end': named + 1 }[BUG] ?? named;
    report({
      error: { code, blamed, address: details?.address, message, stack: code === undefined ? stack : undefined },
    });
    if (BUG === 'ahead') for (let step = 0; step < plan.steps; step++) report({ step, hash: undefined });
    process.exitCode = FAILED;
  })
  .then(end);
