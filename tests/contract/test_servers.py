from silkline import Admission, Politeness


async def test_a_request_goes_in_once_and_comes_out_once(any_server, crawl, open_frontier):
    frontier = await open_frontier(url=any_server.url, politeness=Politeness(delay=0))
    assert await frontier.enqueue(["https://a.example/", "https://a.example/"]) == [Admission.ADDED, Admission.SEEN]
    [lease] = await frontier.claim(10)
    assert lease.url == "https://a.example/"
    await frontier.complete(lease, links=["https://b.example/"])
    [lease] = await frontier.claim(10)
    await frontier.complete(lease)
    assert await frontier.finished()
    assert (await frontier.admin.stats()).conserved
