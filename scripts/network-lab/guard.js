const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');

const NETLAB = path.join(__dirname, '../netlab');

/**
 * A process of its own that takes the lab down when this one ends without having said {@link Guard.release}, be it by
 * SIGKILL. The signal is the end of a pipe. Whatever is started to build the lab holds the pipe too (`stdio`), so that
 * the guard begins only when nothing more can be added.
 */
class Guard {
  constructor(lab) {
    // A shell waits in less memory than Node, and is replaced by Node when there is something to do.
    const wait = 'read -r _ || exec "$0" "$@"';
    this.process = spawn('sh', ['-c', wait, process.execPath, NETLAB, 'down', '--name', lab], {
      detached: true, // so that a terminal's Ctrl-C does not reach it
      cwd: '/',
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    this.process.stdin.on('error', () => {}); // It was killed: nobody guards any more, and nothing else changes.
    this.ended = once(this.process, 'exit');
    this.process.unref();
  }

  /** What a child of this process gets as its file descriptor 3. */
  get pipe() {
    return this.process.stdin;
  }

  /** Says that the lab needs no guard any more. */
  async release() {
    this.process.stdin.end('released\n');
    this.process.ref();
    await this.ended;
  }
}

module.exports = { Guard };
