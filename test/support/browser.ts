import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { testWhere } from './test-where';

/** The program, if it can be found. */
const CHROMIUM = ['chromium', 'chromium-browser', 'google-chrome'].find(
  name => spawnSync('which', [name]).status === 0,
);

export const testInBrowser = testWhere(CHROMIUM === undefined ? 'there is no Chromium on PATH' : undefined);

/** What a browser makes of a page and a script at its end, and what it wrote on its console. */
export function openInBrowser(page: string, script = ''): { dom: string; console: string } {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-browser-'));
  try {
    const file = path.join(folder, 'page.html');
    writeFileSync(
      file,
      page.replace('</body>', () => `<script>${script}</script></body>`),
    );
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--enable-logging=stderr'];
    const quiet = ['--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
    const profile = `--user-data-dir=${folder}/profile`;
    const { stdout, stderr } = spawnSync(CHROMIUM!, [...flags, ...quiet, profile, '--dump-dom', `file://${file}`], {
      encoding: 'utf8',
      timeout: 50_000,
    });
    return { dom: stdout, console: stderr };
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
