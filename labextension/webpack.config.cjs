/**
 * What jupyter-builder's configuration lacks: its licence report names only the packages whose modules stand alone.
 * Packages that the bundler joins into one module with others (style-mod, …) are in the files too.
 */
const { existsSync, readFileSync, readdirSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

const REPORT = 'third-party-licenses.json';
const IN_PACKAGE = /^(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/;

/** The folders of the packages that a module comes from: several where the bundler has joined modules. */
function foldersOf({ resource, modules = [] }) {
  const folder = IN_PACKAGE.exec(resource ?? '')?.[1];
  return [...(folder ? [folder] : []), ...modules.flatMap(foldersOf)];
}

/** One entry of the report, in the form that JupyterLab's "Licenses" shows. */
function licenceOf(folder) {
  const { name, version, license } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8')
  );
  const file = readdirSync(folder).find(entry => /^(licen[cs]e|copying)/i.test(entry));
  if (!license || !file) {
    throw new Error(`${name} is bundled, but its package has no licence text`);
  }
  const extractedText = readFileSync(join(folder, file), 'utf8');
  return { name, versionInfo: version, licenseId: license, extractedText };
}

class CompleteLicences {
  apply(compiler) {
    compiler.hooks.done.tap('CompleteLicences', ({ compilation }) => {
      const path = join(compiler.outputPath, REPORT);
      if (!existsSync(path)) {
        return; // a development build has no report
      }
      const { packages } = JSON.parse(readFileSync(path, 'utf8'));
      const found = new Map(packages.map(entry => [entry.name, entry]));
      const bundled = [...compilation.chunks].flatMap(chunk => [
        ...compilation.chunkGraph.getChunkModules(chunk)
      ]);
      for (const folder of new Set(bundled.flatMap(foldersOf))) {
        const entry = licenceOf(folder);
        found.set(entry.name, entry);
      }
      const all = [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
      writeFileSync(path, JSON.stringify({ packages: all }, null, 2));
    });
  }
}

module.exports = { plugins: [new CompleteLicences()] };
