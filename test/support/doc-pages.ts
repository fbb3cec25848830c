import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');

/** All pages for readers: README.md and its neighbours, and those of docs/. Paths from the root of the repository. */
export const DOC_PAGES: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(path.join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => `docs/${name}`)
    .sort(),
];

export function readPage(page: string): string {
  return readFileSync(path.join(ROOT, page), 'utf8');
}

/** The shell commands in a section of a page, block by block. */
export function commandsIn(page: string, heading: string): string[] {
  const section = readPage(page).split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block!);
}
