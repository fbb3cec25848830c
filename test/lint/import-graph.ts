import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

const SOURCES = path.join(__dirname, '../../src');

/** For each file of src/, as `folder/file.ts`: the files of src/ that it imports, for their types too. */
export function importGraph(): Map<string, string[]> {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter(
    file => file.endsWith('.ts') && !/\/(assembly|generated)\//.test(file),
  );
  const known = new Set(files);
  return new Map(
    files.map(file => {
      const { importedFiles } = ts.preProcessFile(readFileSync(path.join(SOURCES, file), 'utf8'));
      const imported = importedFiles.map(({ fileName }) => `${path.join(path.dirname(file), fileName)}.ts`);
      return [file, imported.filter(each => known.has(each))];
    }),
  );
}

/** A way from a file back to itself along imports; undefined if there is none. */
export function cycleIn(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]): string[] | undefined => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const imported of graph.get(file) ?? []) {
      const cycle = visit(imported, [...way, file]);
      if (cycle !== undefined) return cycle;
    }
    done.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const cycle = visit(file, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}
