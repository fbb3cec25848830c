import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { launch } from '../../src/launcher/launch';
import { Capture } from '../launcher/support';

const SCRIPT = path.join(__dirname, '../../scripts/train/digits.js');

/** Gives each test of the file a folder of its own. Returns where the current one is. */
export function useFolder(): () => string {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-digits-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  return () => folder;
}

/** Runs digits.js on some ranks. */
export async function digits(ranks: number, ...args: string[]): Promise<{ exitCode: number; output: string }> {
  const stream = new Capture();
  const env = { GRADRING_BACKEND: 'wasm' };
  const { exitCode } = await launch({
    ...{ ranks, script: SCRIPT, args, env },
    ...{ prefix: false, stdout: stream, stderr: stream },
  });
  return { exitCode, output: stream.text };
}
