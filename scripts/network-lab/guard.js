const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');

const NETLAB = path.join(__dirname, '../netlab');

/**
 * A separate process that removes the lab if this process ends without {@link Guard.release}, even by SIGKILL. It
 * notices the end by a pipe that is closed. All programs that build the lab hold the pipe, too (`stdio`), so the guard
 * starts only when they have ended.
 */
class Guard {
  constructor(lab) {
    // A waiting shell takes less memory than Node. It is replaced by Node when the lab must be removed.
    const wait = 'read -r _ || exec "$0" "$@"';
    this.process = spawn('sh', ['-c', wait, process.execPath, NETLAB, 'down', '--name', lab], {
      detached: true, // so that a terminal's Ctrl-C does not reach it
      cwd: '/',
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    this.process.stdin.on('error', () => {}); // The guard was killed. Nothing else changes.
    this.ended = once(this.process, 'exit');
    this.process.unref();
  }

  /** The pipe that a child of this process gets as its file descriptor 3. */
  get pipe() {
    return this.process.stdin;
  }

  /** Ends the guard, because the lab does not need it any more. */
  async release() {
    this.process.stdin.end('released\n');
    this.process.ref();
    await this.ended;
  }
}

module.exports = { Guard };
