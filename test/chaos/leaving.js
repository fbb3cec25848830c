const { existsSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { report } = require('./rank-report');

/**
 * How the script of a rank may end. Those that stay live on beside their neighbours' ends, call once more if they had
 * failed, and close then.
 */
const WAYS_TO_LEAVE = ['close', 'exit', 'fall off', 'stay'];

const POLL_MS = 20;

/** Tells those that stay that all the others have ended. */
function release(folder) {
  writeFileSync(releaseOf(folder), '');
}

/**
 * Ends the script of a rank.
 *
 * @param {object} options
 * @param {string} options.way One of {@link WAYS_TO_LEAVE}.
 * @param {import('../../dist').Communicator} [options.ring]
 * @param {boolean} options.hasFailed
 * @param {number} options.stayMs
 * @param {boolean} options.sync Whether to sleep in calls.
 * @param {string} options.folder Of the run.
 */
async function leave({ way, ring, hasFailed, stayMs, sync, folder }) {
  if (way === 'exit') process.exit();
  if (way === 'fall off') return;
  if (way === 'stay') {
    await sleep(stayMs);
    while (!existsSync(releaseOf(folder))) await sleep(POLL_MS);
    if (hasFailed && ring !== undefined) report({ again: await callAgain(ring, sync) });
  }
  await ring?.close();
  report({ left: true });
}

/** What a ring that has failed says when it is called once more, and after how long. */
async function callAgain(ring, sync) {
  const startedAt = performance.now();
  const told = await attempt(ring, sync);
  return { ...told, ms: performance.now() - startedAt };
}

async function attempt(ring, sync) {
  try {
    if (sync) ring.barrierSync();
    else await ring.barrier();
    return {};
  } catch ({ code, rank }) {
    return { code, blamed: rank };
  }
}

function releaseOf(folder) {
  return path.join(folder, 'others-have-ended');
}

module.exports = { leave, release, WAYS_TO_LEAVE };
