"""Adds up JUnit result files: prints 'N passed, N failed' and fails where a test failed or none ran."""
import sys
import xml.etree.ElementTree as ET


def count(paths):
    passed = failed = 0
    for path in paths:
        for case in ET.parse(path).iter("testcase"):
            bad = case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"
            # A test that is skipped or not run has proved nothing.
            bad = bad or case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
            failed += bad
            passed += not bad
    return passed, failed


if __name__ == "__main__":
    passed, failed = count(sys.argv[1:])
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
