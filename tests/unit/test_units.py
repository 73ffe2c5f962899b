from silkline.core.units import format_bytes, parse_bytes


def test_sizes_have_the_binary_unit_that_fits_them():
    sizes = (0, 999, 1023, 1024, 1536, 80 * 2**20, 12_345_678, 2**31, 2**40, 5_000 * 2**40)
    words = ["0 B", "999 B", "1,023 B", "1 KiB", "1.5 KiB", "80 MiB", "11.8 MiB", "2 GiB", "1 TiB", "5,000 TiB"]
    assert [format_bytes(size) for size in sizes] == words


def test_sizes_are_read_with_binary_units_however_they_are_written():
    for text in ("2G", "2g", "2GB", "2 GiB", "2048M", "2097152K", str(2**31)):
        assert parse_bytes(text) == 2**31, text
    assert [parse_bytes(text) for text in ("", "many", "-1", "2X", "2 G i B")] == [None] * 5
