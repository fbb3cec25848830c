const { spawn } = require('node:child_process');
const { signalGroup, signalProcess } = require('../../dist/launcher/signals');
const { rankName } = require('./names');

/**
 * A command in the namespace of a rank. It has what the supervisor and the outputs of the launcher need: `rank`, `pid`,
 * `stdout`, `stderr`, `started`, `ended`, `signal`, `kill`. It leads a process group, which ends with it.
 */
class NamespaceProcess {
  constructor({ lab, rank, command, env, guard }) {
    const startedAt = performance.now();
    this.rank = rank;
    // The command closes the guard's pipe only inside the namespace, where the guard can find and end it.
    const inside = ['sh', '-c', 'exec "$@" 3>&-', 'sh', ...command];
    this.child = spawn('ip', ['netns', 'exec', rankName(lab, rank), ...inside], {
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...(guard ? [guard.pipe] : [])],
    });
    const { pid, stdout, stderr } = this.child;
    this.pid = pid;
    this.stdout = stdout;
    this.stderr = stderr;
    this.running = true;
    this.started = new Promise((resolve, reject) => this.child.once('spawn', resolve).once('error', reject));
    this.ended = new Promise(resolve => {
      this.child.once('exit', (exitCode, signal) => {
        this.running = false;
        signalGroup(pid, 'SIGKILL');
        resolve({ rank, pid, exitCode, signal, afterMs: performance.now() - startedAt });
      });
    });
  }

  signal(signal) {
    if (this.running) signalProcess(this.pid, signal);
  }

  kill() {
    if (this.running) signalGroup(this.pid, 'SIGKILL');
  }
}

module.exports = { NamespaceProcess };
