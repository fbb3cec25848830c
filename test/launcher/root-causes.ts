import path from 'node:path';
import { type LaunchResult } from '../../src/launcher/conclude';
import { launch } from '../../src/launcher/launch';
import type { LaunchOptions } from '../../src/launcher/launch-options';
import { Capture, ROOT, script } from './support';

const PRELUDE = `
  const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
  const { GradringError } = require(${JSON.stringify(path.join(ROOT, 'dist/errors.js'))});
  const rank = Number(process.env.RANK);
  const connect = options => Communicator.connect(options);`;

/**
 * Runs the body of an async function, which finds `rank`, `connect` and `GradringError`, on two ranks. Also returns the
 * launcher's last line, which names the rank that was the cause.
 */
export async function runBody(
  source: string,
  options: Partial<LaunchOptions> = {},
): Promise<LaunchResult & { summary: string; stderr: string }> {
  const [stdout, stderr] = [new Capture(), new Capture()];
  const file = script(`${PRELUDE}\n(async () => {\n${source}\n})();`);
  const result = await launch({ ranks: 2, script: file, stdout, stderr, ...options });
  const summary = stderr.lines.find(line => line.startsWith('gradring: ')) ?? '';
  return { ...result, summary, stderr: stderr.text };
}
