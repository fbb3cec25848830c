/** @jest-environment node */ // TypeScript wants the Array of its own realm.
import path from 'node:path';
import ts from 'typescript';

const DIST = path.join(__dirname, '../../dist');

/** Names that an entry point of types uses in what it exports, and does not export: `Ring: TensorData`. */
function notExported(entry: string): string[] {
  const options = { skipLibCheck: true, types: ['node'], target: ts.ScriptTarget.ES2022 };
  const program = ts.createProgram([entry], options);
  const checker = program.getTypeChecker();
  const origin = (symbol: ts.Symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const entrySymbol = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!;
  const exported = new Set(checker.getExportsOfModule(entrySymbol).map(origin));
  const isOwn = ({ declarations }: ts.Symbol) => declarations?.[0]?.getSourceFile().fileName.startsWith(DIST) === true;
  const missing = new Set<string>();
  const visit = (node: ts.Node, user: string): void => {
    // What is protected is for subclasses within the package.
    const flags = ts.canHaveModifiers(node) ? ts.getCombinedModifierFlags(node as ts.Declaration) : 0;
    if (flags & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) return;
    const name = ts.isTypeReferenceNode(node)
      ? node.typeName
      : ts.isExpressionWithTypeArguments(node)
        ? node.expression
        : ts.isImportTypeNode(node)
          ? node.qualifier
          : undefined;
    const symbol = name && checker.getSymbolAtLocation(name);
    const used = symbol && origin(symbol);
    const isParameter = used !== undefined && (used.flags & ts.SymbolFlags.TypeParameter) !== 0;
    if (used !== undefined && !isParameter && isOwn(used) && !exported.has(used)) missing.add(`${user}: ${used.name}`);
    ts.forEachChild(node, child => visit(child, user));
  };
  for (const symbol of exported) symbol.declarations?.forEach(declaration => visit(declaration, symbol.name));
  return [...missing].sort();
}

test.each(['index.d.ts', 'core.d.ts'])('every type that the types of %s name is public too', entry => {
  expect(notExported(path.join(DIST, entry))).toEqual([]);
});

test('a type that is not exported is found', () => {
  // This file of the package is no entry point: what it exports uses types of other files.
  expect(notExported(path.join(DIST, 'launcher/launch.d.ts'))).toContain('launch: LaunchOptions');
});
