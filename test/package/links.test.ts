import { existsSync } from 'node:fs';
import path from 'node:path';
import { DOC_PAGES, readPage } from '../support/doc-pages';

const ROOT = path.join(__dirname, '../..');

function isPage(file: string): boolean {
  return file.endsWith('.md');
}

/** A page without what is quoted in it as code. */
function proseOf(file: string): string {
  return readPage(file).replace(/^```.*?^```$/gms, '');
}

/** The names by which GitHub links to the headings of a page. */
function anchorsOf(file: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading] of proseOf(file).matchAll(/^#+ +(.*?) *$/gm)) {
    const text = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const name = text.replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-');
    let anchor = name;
    for (let i = 1; anchors.has(anchor); i++) anchor = `${name}-${i}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Where the links of a page lead, but for those to other sites. */
function linksOf(file: string): string[] {
  const targets = [...proseOf(file).matchAll(/\]\(([^)\s]+)\)|^\[[^\]]+\]: *(\S+)/gm)].map(([, a, b]) => a ?? b!);
  return targets.filter(target => !/^[a-z]+:/.test(target));
}

test.each(DOC_PAGES)('every link of %s leads to a file that is there, and to a heading of it', page => {
  const dead = linksOf(page).filter(link => {
    const [file, anchor] = link.split('#') as [string, string?];
    const target = file === '' ? page : path.join(path.dirname(page), file);
    if (target.startsWith('..') || !existsSync(path.join(ROOT, target))) return true;
    return anchor !== undefined && !(isPage(target) && anchorsOf(target).has(anchor));
  });
  expect(dead).toEqual([]);
});

test('the links are found', () => {
  expect(linksOf('README.md')).toEqual(
    expect.arrayContaining(['docs/ring.svg', 'docs/how-to/start-ranks.md#on-several-hosts', 'CONTRIBUTING.md']),
  );
  expect([...anchorsOf('docs/reliability.md')]).toEqual(expect.arrayContaining(['elastic-runs', 'the-stall-report']));
});

test('the index of the docs leads to every page of them', () => {
  const linked = linksOf('docs/README.md').map(link => path.posix.join('docs', link.split('#')[0]!));
  const pages = DOC_PAGES.filter(page => page.startsWith('docs/') && !page.endsWith('README.md'));
  const isNote = (page: string) => page.startsWith('docs/lab-notes/'); // they have an index of their own
  expect(pages.filter(page => !isNote(page) && !linked.includes(page))).toEqual([]);
  const notes = linksOf('docs/lab-notes/README.md').map(link => path.posix.join('docs/lab-notes', link));
  expect(pages.filter(page => isNote(page) && !notes.includes(page))).toEqual([]);
});
