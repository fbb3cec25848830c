const { spawn } = require('node:child_process');
const { LabError } = require('./lab-error');

/**
 * Runs `ip` or `tc` and resolves with what it printed.
 *
 * @param options.input Its standard input, for `-batch -`.
 * @param options.guard The guard that must wait for its end.
 * @throws LabError with the tool's own words if it fails.
 */
async function run(tool, args, { input = '', guard } = {}) {
  const child = spawn(tool, args, { stdio: ['pipe', 'pipe', 'pipe', ...(guard ? [guard.pipe] : [])] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', text => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
  child.stdin.on('error', () => {}); // It stopped reading at a command that failed; its exit code tells.
  child.stdin.end(input);
  const [exitCode, signal] = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (...end) => resolve(end));
  });
  if (exitCode === 0) return stdout;
  throw new LabError(`'${tool} ${args.join(' ')}' failed (${signal ?? `exit ${exitCode}`}): ${stderr.trim()}`);
}

/** Runs the commands in their order in one process; the first failure ends it. */
function batch(tool, options, commands, guard) {
  return run(tool, [...options, '-batch', '-'], { input: `${commands.join('\n')}\n`, guard });
}

module.exports = { run, batch };
