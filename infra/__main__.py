from encamp.program import main

main()
