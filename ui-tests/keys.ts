import { Locator, Page } from '@playwright/test';

/** Run a command by its name in the palette, with keys alone. */
export async function byPalette(page: Page, name: string): Promise<void> {
  await page.keyboard.press('Control+Shift+c');
  await page.locator('.lm-CommandPalette-input:visible').waitFor();
  await page.keyboard.type(name);
  await page
    .locator('.lm-CommandPalette-item.lm-mod-active', { hasText: name })
    .waitFor();
  await page.keyboard.press('Enter');
}

/** Go on by Tab until a control has the focus. */
export async function tabTo(page: Page, control: Locator): Promise<void> {
  for (let i = 0; i < 160; i++) {
    if (await control.evaluate(node => node === document.activeElement)) {
      return;
    }
    await page.keyboard.press('Tab');
  }
  throw new Error('Tab does not come there');
}
