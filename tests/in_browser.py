"""What tests in a real browser share: where Chromium is, and a measure of contrast."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-background-networking"]
# elements whose text stands out less than 4.5 to 1 (WCAG AA)
CONTRAST = """() => {
  const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
  const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2])
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1] }
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]))
  const behind = element => {
    const layers = []
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor))
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255])
  }
  const found = []
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
    if (!own || element.closest('svg, .hidden, .skip') || !element.getClientRects().length) continue
    const page = behind(element), ink = over(parse(getComputedStyle(element).color), page)
    const [high, low] = [luminance(ink), luminance(page)].sort((a, b) => b - a)
    const ratio = (high + 0.05) / (low + 0.05)
    if (ratio < 4.5) found.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`)
  }
  return found
}"""
