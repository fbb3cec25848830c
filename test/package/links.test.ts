import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');
const PAGES = ['README.md', ...readdirSync(path.join(ROOT, 'docs')).map(name => `docs/${name}`)].filter(isPage);

function isPage(file: string): boolean {
  return file.endsWith('.md');
}

/** A page without what is quoted in it as code. */
function proseOf(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8').replace(/^```.*?^```$/gms, '');
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

test.each(PAGES)('every link of %s leads to a file that is there, and to a heading of it', page => {
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
    expect.arrayContaining(['docs/ring.svg', 'docs/guide.md#examples', 'CONTRIBUTING.md']),
  );
  expect([...anchorsOf('docs/guide.md')]).toEqual(expect.arrayContaining(['examples', 'ranks-that-are-lost']));
});
