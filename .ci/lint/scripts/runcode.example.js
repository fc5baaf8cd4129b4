// A script of run-code, by which tsc checks docs/run-code.d.ts.
function order() {
  page.navigate({url: 'https://shop.example/', snapshot: 'full'});
  page.fillForm({fields: [{ref: page.ref('Name', 'textbox'), value: 'Ada'}]});
  const {effect} = page.click({ref: page.ref('Order')});
  page.expect(effect === 'confirmed', 'an order');
  for (const tab of page.tabs().tabs) console.log(tab.index, tab.url);
  // @ts-expect-error: a field that the tool does not have
  page.click({elsewhere: 1});
  // @ts-expect-error: a value that the field does not take
  page.navigate({url: 'https://shop.example/', wait_until: 'never'});
  return page.keep('title', page.evaluate(() => 1));
}
order();
