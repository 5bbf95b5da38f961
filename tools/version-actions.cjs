// How `nx release` reads and writes versions in the workspaces' package.json files: each package on its own version,
// dependants' ranges follow, and the lockfile is brought up to date at the end.
const { execFileSync } = require('node:child_process')
const { VersionActions } = require('nx/release')

const COLLECTIONS = ['dependencies', 'peerDependencies', 'optionalDependencies', 'devDependencies']
const read = (tree, path) => JSON.parse(tree.read(path, 'utf8'))
const write = (tree, path, manifest) => tree.write(path, JSON.stringify(manifest, null, 2) + '\n')
const npmName = (graph, project) => graph.nodes[project].data.metadata?.js?.packageName ?? project

class NpmVersionActions extends VersionActions {
  validManifestFilenames = ['package.json']

  #source() {
    return `${this.projectGraphNode.data.root}/package.json`
  }

  async readCurrentVersionFromSourceManifest(tree) {
    return { currentVersion: read(tree, this.#source()).version, manifestPath: this.#source() }
  }

  async readCurrentVersionFromRegistry() {
    return null
  }

  async readCurrentVersionOfDependency(tree, graph, project) {
    const manifest = read(tree, this.#source())
    const name = npmName(graph, project)
    const dependencyCollection = COLLECTIONS.find((collection) => manifest[collection]?.[name]) ?? null
    return {
      currentVersion: dependencyCollection ? manifest[dependencyCollection][name] : null,
      dependencyCollection,
    }
  }

  async updateProjectVersion(tree, version) {
    for (const { manifestPath } of this.manifestsToUpdate) {
      write(tree, manifestPath, { ...read(tree, manifestPath), version })
    }
    return [`New version ${version} written to ${this.#source()}`]
  }

  async updateProjectDependencies(tree, graph, updates) {
    for (const { manifestPath } of this.manifestsToUpdate) {
      const manifest = read(tree, manifestPath)
      for (const [project, range] of Object.entries(updates)) {
        const name = npmName(graph, project)
        for (const collection of COLLECTIONS) if (manifest[collection]?.[name]) manifest[collection][name] = range
      }
      write(tree, manifestPath, manifest)
    }
    return []
  }
}

module.exports.default = NpmVersionActions

module.exports.afterAllProjectsVersioned = async (cwd, { dryRun }) => {
  if (!dryRun) execFileSync('npm', ['install', '--package-lock-only', '--no-audit'], { cwd, stdio: 'inherit' })
  return { changedFiles: dryRun ? [] : ['package-lock.json'], deletedFiles: [] }
}
