const { randomBytes } = require('node:crypto');
const { existsSync } = require('node:fs');
const path = require('node:path');
const { LabError } = require('./lab-error');

const GRACE_MS = 10_000; // the defaults of `gradring run`
const FAILURE_GRACE_MS = 3_000;

/**
 * Runs the command in all namespaces of the lab at once, or only in that of one `rank`. Resolves with the exit code: 0,
 * or that of the first failure. After a failure the other processes are ended. SIGINT, SIGTERM and SIGHUP are
 * forwarded.
 *
 * @param {{ name: string, addresses: string[] }} lab
 * @param {object} options
 * @param {string[]} options.command
 * @param {number} [options.rank]
 * @param {boolean} [options.prefix]
 * @param {number} [options.masterPort]
 * @param {{ pipe: import('node:stream').Stream }} [options.guard] The lab's, if this process must remove the lab.
 */
async function execute(lab, { command, rank: onlyRank, prefix, masterPort, guard }) {
  const launcher = requireLauncher();
  const { stdout, stderr } = process;
  const outputs = new launcher.RankOutputs({ prefix, env: {}, stdout, stderr, firstRank: 0, seats: [] });
  const ranks = onlyRank === undefined ? [...lab.addresses.keys()] : [onlyRank];
  const common = { ...process.env, ...outputs.variables, ...commonVariables(lab, masterPort) };
  const start = number => {
    const rank = ranks[number];
    const own = command.map(argument => argument.replaceAll('{rank}', String(rank)));
    const env = { ...common, RANK: String(rank) };
    return launcher.startInNamespace({ lab: lab.name, rank, command: own, env, guard });
  };
  const supervisor = new launcher.Supervisor(ranks.length, GRACE_MS, { start, outputs });
  try {
    return await conclude(launcher, await supervisor.run(launcher.endTogether(FAILURE_GRACE_MS)), outputs);
  } finally {
    await outputs.close();
  }
}

/** For its processes, each namespace is a host with one rank. */
function commonVariables({ addresses }, masterPort) {
  return {
    WORLD_SIZE: String(addresses.length),
    LOCAL_RANK: '0',
    LOCAL_WORLD_SIZE: '1',
    MASTER_ADDR: addresses[0],
    MASTER_PORT: String(masterPort),
    GRADRING_RUN_ID: process.env.GRADRING_RUN_ID || randomBytes(16).toString('hex'),
    GRADRING_RUN_TOKEN: process.env.GRADRING_RUN_TOKEN || randomBytes(32).toString('hex'),
  };
}

/** A command that ends well may have no ring, and nothing is said of it. */
async function conclude(launcher, end, outputs) {
  if (end.failure === undefined && end.interruptedBy === undefined) return 0;
  return (await launcher.conclude(end, outputs, end.outcomes.length)).exitCode;
}

/** The modules of the launcher that are used here, too. They exist after gradring was built. */
function requireLauncher() {
  const launcher = path.join(__dirname, '../../dist/launcher');
  if (!existsSync(launcher)) throw new LabError('gradring is not built yet: run `npm run build` first.');
  return {
    ...require(path.join(launcher, 'conclude')),
    ...require(path.join(launcher, 'rank-outputs')),
    ...require(path.join(launcher, 'supervisor')),
    ...require('./namespace-process'),
  };
}

module.exports = { execute, requireLauncher };
