import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

const SOURCE = path.join(__dirname, '../../src');

function parse(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2022, true);
}

/** A public name, and where it is from. */
export interface PublicExport {
  readonly name: string;
  readonly source: string;
  readonly file: string;
}

/** What an entry of the package exports. */
function exportsOf(entry: string): PublicExport[] {
  return parse(path.join(SOURCE, entry)).statements.flatMap(statement => {
    if (ts.isExportDeclaration(statement) && statement.exportClause === undefined) {
      return exportsOf(`${(statement.moduleSpecifier as ts.StringLiteral).text}.ts`); // export * from
    }
    if (!ts.isExportDeclaration(statement) || !statement.exportClause || !ts.isNamedExports(statement.exportClause)) {
      throw new Error(`src/${entry} has only lists of exports.`);
    }
    const file = path.join(SOURCE, `${(statement.moduleSpecifier as ts.StringLiteral).text}.ts`);
    return statement.exportClause.elements.map(({ name, propertyName }) => ({
      name: name.text,
      source: (propertyName ?? name).text,
      file,
    }));
  });
}

/** What src/index.ts exports. */
export const PUBLIC_EXPORTS: readonly PublicExport[] = exportsOf('index.ts');

/** What src/core.ts exports. */
export const CORE_EXPORTS: readonly PublicExport[] = exportsOf('core.ts');

/** A public class, one of its members, or a public function. */
export interface Documented {
  /** `dgc`, `Communicator`, `Communicator.allReduce`. */
  readonly name: string;
  /** The text of its docstring, without stars. Empty if it has none. */
  readonly docstring: string;
  readonly kind: 'class' | 'function' | 'member';
}

/** All public classes with their public members, and all public functions. */
export function publicCode(entry = PUBLIC_EXPORTS): Documented[] {
  return entry.flatMap(({ name, source, file }) => {
    const declarations = parse(file).statements.filter(
      (node): node is ts.ClassDeclaration | ts.FunctionDeclaration =>
        (ts.isClassDeclaration(node) || ts.isFunctionDeclaration(node)) && node.name?.text === source,
    );
    const [declaration] = declarations;
    if (declaration === undefined) return [];
    const docstring = declarations.map(docstringOf).join('\n'); // of all overloads
    if (ts.isFunctionDeclaration(declaration)) return [{ name, docstring, kind: 'function' as const }];
    return [{ name, docstring, kind: 'class' as const }, ...membersOf(name, declaration)];
  });
}

function membersOf(className: string, { members }: ts.ClassDeclaration): Documented[] {
  const byName = new Map<string, string>();
  for (const member of members) {
    if (member.name === undefined || !ts.isIdentifier(member.name)) continue;
    const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
    if (ts.getCombinedModifierFlags(member) & hidden) continue;
    const docstring = docstringOf(member);
    if (docstring.includes('@internal')) continue;
    const name = `${className}.${member.name.text}`;
    byName.set(name, `${byName.get(name) ?? ''}\n${docstring}`); // of all overloads, getters and setters
  }
  return [...byName].map(([name, docstring]) => ({ name, docstring: docstring.trim(), kind: 'member' as const }));
}

function docstringOf(node: ts.Node): string {
  const source = node.getSourceFile().text;
  const comments = ts.getLeadingCommentRanges(source, node.getFullStart()) ?? [];
  const last = comments
    .map(({ pos, end }) => source.slice(pos, end))
    .filter(text => text.startsWith('/**'))
    .at(-1);
  return (last ?? '')
    .replace(/^\/\*\*|\*\/$/g, '')
    .replace(/^[^\S\n]*\* ?/gm, '')
    .trim();
}
