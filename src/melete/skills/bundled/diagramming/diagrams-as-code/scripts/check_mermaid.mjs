// Says whether Mermaid files can be drawn, without a browser.
// usage: npm install --no-save mermaid jsdom && node check_mermaid.mjs FILE.mmd|FILE.md ...   (in the folder of node_modules)
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const here = createRequire(`${process.cwd()}/x.js`)
const { JSDOM } = here('jsdom')
const page = new JSDOM('<body></body>')
globalThis.window = page.window
globalThis.document = page.window.document
const folder = here.resolve('mermaid').replace(/mermaid[\\/]dist.*$/, 'mermaid')
const mermaid = (await import(pathToFileURL(`${folder}/dist/mermaid.core.mjs`))).default

let wrong = 0
for (const path of process.argv.slice(2)) {
  const text = readFileSync(path, 'utf8')
  const drawings = path.endsWith('.md') ? [...text.matchAll(/^```mermaid\n([\s\S]*?)^```/gm)].map((one) => one[1]) : [text]
  for (const [index, drawing] of drawings.entries()) {
    try {
      const { diagramType } = await mermaid.parse(drawing)
      console.log(`${path} ${index + 1}: ${diagramType}`)
    } catch (error) {
      wrong += 1
      console.log(`${path} ${index + 1}: WRONG\n${String(error.message).slice(0, 400)}`)
    }
  }
}
process.exit(wrong ? 1 : 0)
