const { spawn } = require('node:child_process');
const { RankProcess } = require('../../dist/launcher/rank-process');
const { rankName } = require('./names');

/** Starts a command in the namespace of a rank. */
function startInNamespace({ lab, rank, command, env, guard }) {
  // The command closes the guard's pipe only inside the namespace, where the guard can find and end it.
  const inside = ['sh', '-c', 'exec "$@" 3>&-', 'sh', ...command];
  const begin = () =>
    spawn('ip', ['netns', 'exec', rankName(lab, rank), ...inside], {
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...(guard ? [guard.pipe] : [])],
    });
  return new RankProcess(rank, begin);
}

module.exports = { startInNamespace };
