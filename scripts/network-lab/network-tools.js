const { spawn } = require('node:child_process');
const { LabError } = require('./lab-error');

/**
 * Runs `ip` or `tc` and resolves with what it printed.
 *
 * @param {string} tool
 * @param {string[]} args
 * @param {object} [options]
 * @param {string} [options.input] Its standard input, for `-batch -`.
 * @param {{ pipe: import('node:stream').Stream }} [options.guard] The guard, which must wait for the end of the tool.
 * @throws LabError with the error output of the tool if it fails.
 */
async function run(tool, args, { input = '', guard } = {}) {
  const child = spawn(tool, args, { stdio: ['pipe', 'pipe', 'pipe', ...(guard ? [guard.pipe] : [])] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', text => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
  child.stdin.on('error', () => {}); // The tool stops reading after a command that failed. Its exit code says so.
  child.stdin.end(input);
  const [exitCode, signal] = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (...end) => resolve(end));
  });
  if (exitCode === 0) return stdout;
  throw new LabError(`'${tool} ${args.join(' ')}' failed (${signal ?? `exit ${exitCode}`}): ${stderr.trim()}`);
}

/** Runs commands one after the other in one process. It ends at the first failure. */
function batch(tool, options, commands, guard) {
  return run(tool, [...options, '-batch', '-'], { input: `${commands.join('\n')}\n`, guard });
}

module.exports = { run, batch };
